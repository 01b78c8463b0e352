"""Manifests: everything that made a number, beside the number."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "sentence-transformers",
    "datasets",
    "faiss-cpu",
    "bm25s",
    "rank-bm25",
    "ir-measures",
    "numpy",
    "scipy",
    "scikit-learn",
    "pyarrow",
    "gguf",
)


def manifest(command: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a manifest: the caller's fields, plus versions, machine and time.

    Versions come from package metadata; nothing is imported to learn them.

    Args:
        command: What was run; this process's command line when ``None``.
        **fields: JSON-ready facts: config, data hashes, model identity, seed, counts.

    Returns:
        ``command``, ``time`` (UTC), ``utilitune``, ``python``, ``machine``, ``versions``, then ``fields``.

    Raises:
        ValueError: If a field has one of those names.
    """
    base = {
        "command": _command_line() if command is None else command,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "utilitune": version("utilitune"),
        "python": platform.python_version(),
        "machine": machine(),
        "versions": {name: found for name in PACKAGES if (found := version(name))},
    }
    taken = sorted(base.keys() & fields.keys())
    if taken:
        raise ValueError(f"a manifest has its own {', '.join(taken)}; name the field otherwise")
    return {**base, **fields}


def version(package: str) -> str | None:
    """Return the installed version of a package, or ``None``."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Return what numbers may depend on: system, processor, usable cores, accelerator when one is in use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    facts: dict[str, Any] = {"system": platform.system(), "processor": platform.machine(), "cores": cores}
    torch = sys.modules.get("torch")
    # Only a process that already uses the accelerator knows its name for free.
    if torch is not None and torch.cuda.is_initialized():
        facts["accelerator"] = torch.cuda.get_device_name()
    return facts


def _command_line() -> str:
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else ""
