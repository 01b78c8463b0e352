"""The folder of a trained rewriter: a PEFT adapter, and a base reference that survives a move."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError, DataError
from utilitune.records import write_json
from utilitune.rewrite.base_spec import BaseSpec, Spec

FILE = "rewriter.json"


@dataclass(frozen=True)
class RewriterCard:
    """Contents of ``rewriter.json``.

    Attributes:
        base: ``packaged:NAME``, a Hub id, or a path relative to the adapter's folder.
        base_kind: ``packaged``, ``hub`` or ``folder``; ``merged`` for a folder that holds the whole model.
        base_revision: Commit of a Hub base, ``""`` where it is not known.
        method: How it was trained: ``sft``, ``dpo`` or ``grpo``; ``""`` for an adapter from elsewhere.
        prompt: Prompt template's name or path.
        prompt_hash: Its hash at training time.
        max_new_tokens: Length limit of a rewrite.
        training: Settings, counts, versions, and ``query_ids``: the questions it was trained on.
    """

    base: str
    base_kind: str
    base_revision: str = ""
    method: str = ""
    prompt: str = "rewrite"
    prompt_hash: str = ""
    max_new_tokens: int = 40
    training: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write ``rewriter.json`` into ``folder``."""
        write_json(folder / FILE, {"format": 1, **asdict(self)})

    @classmethod
    def read(cls, folder: Path) -> RewriterCard:
        """Read ``rewriter.json``; a bare PEFT folder yields a card from its ``adapter_config.json``.

        Args:
            folder: Adapter folder.

        Returns:
            The card.

        Raises:
            DataError: When neither file is there, or one is damaged.
        """
        own, peft = folder / FILE, folder / "adapter_config.json"
        try:
            if own.is_file():
                row = json.loads(own.read_text(encoding="utf-8"))
                return cls(**{key: row[key] for key in cls.__dataclass_fields__ if key in row})
            if peft.is_file():
                row = json.loads(peft.read_text(encoding="utf-8"))
                base = str(row["base_model_name_or_path"])
                return cls(base=base, base_kind=base_kind(base), base_revision=str(row.get("revision") or ""))
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"{folder}: damaged rewriter folder ({error!r}); train or copy it again") from error
        raise DataError(f"{folder}: neither {FILE} nor adapter_config.json is there; expected a trained rewriter")

    def adapter_in(self, folder: Path) -> str | None:
        """Return the adapter to put on the base; ``None`` for a merged model, which has it inside."""
        return None if self.base_kind == "merged" else str(folder)

    def locate_base(self, folder: Path) -> Spec:
        """Return the base as ``load_generator`` takes it, pinned to its revision.

        Args:
            folder: Where the adapter is now.

        Returns:
            A spec, or an existing folder.

        Raises:
            ConfigError: When the base folder is not where the card says.
        """
        if self.base_kind == "merged":
            return str(folder)
        if self.base_kind != "folder":
            return BaseSpec(self.base, self.base_revision).spec
        place = Path(os.path.normpath(folder.absolute() / self.base))
        if not place.is_dir():
            raise ConfigError(
                f"the adapter in {folder} belongs to the base model {place.name!r}, expected at {place}, "
                "which does not exist; say where it is with base=..."
            )
        return str(place)


def is_adapter(folder: Path) -> bool:
    """Tell whether a folder holds a trained rewriter, or any PEFT adapter."""
    return (folder / FILE).is_file() or (folder / "adapter_config.json").is_file()


def base_kind(base: str) -> str:
    """Tell ``packaged``, ``folder`` and ``hub`` specs apart."""
    if base.startswith("packaged:"):
        return "packaged"
    return "folder" if Path(base).is_dir() or base.startswith(("/", "./", "../", "~")) else "hub"


def portable_base(base: str, folder: Path) -> tuple[str, str]:
    """Return ``(reference, kind)``: a folder becomes a path relative to the adapter's, anything else stays."""
    kind = base_kind(base)
    if kind != "folder":
        return base, kind
    return Path(os.path.relpath(Path(base).expanduser().absolute(), folder.absolute())).as_posix(), kind
