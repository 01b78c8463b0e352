"""Which model a rewriter is trained on: a name, and the revision that it is pinned to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError

Spec = str | Mapping[str, Any]


@dataclass(frozen=True)
class BaseSpec:
    """A model by name.

    Attributes:
        model: ``packaged:NAME``, Hub id or folder.
        revision: Branch, tag or commit of a Hub id, ``""`` for the default branch.
    """

    model: str
    revision: str = ""

    @classmethod
    def of(cls, spec: Spec) -> BaseSpec:
        """Read a spec.

        Args:
            spec: A name, or ``{"model": name, "revision": commit}``.

        Returns:
            The spec.

        Raises:
            ConfigError: For other keys, or no model.
        """
        if isinstance(spec, str):
            return cls(spec)
        unknown = sorted(set(spec) - {"model", "revision"})
        if unknown or not spec.get("model"):
            found = f"unknown keys {', '.join(unknown)}" if unknown else "no 'model'"
            raise ConfigError(f"base: {found}; expected a model's name, or a mapping with model and revision")
        return cls(str(spec["model"]), str(spec.get("revision") or ""))

    @property
    def spec(self) -> Spec:
        """The spec as ``load_generator`` takes it."""
        return {"model": self.model, "revision": self.revision} if self.revision else self.model

    def locate(self) -> tuple[str, dict[str, Any]]:
        """Return what transformers should load, and the options that keep a local folder off the network."""
        from utilitune.generator import resolve_model

        source = Path(resolve_model(self.model)).expanduser()
        local = source.is_dir()
        revision = None if local else self.revision or None
        return str(source) if local else self.model, {"local_files_only": local, "revision": revision}
