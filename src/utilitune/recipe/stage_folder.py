"""The folder of a stage: its record, the hash of its outputs, and how it is emptied."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.records import file_hash

RECORD = "stage.json"


def read_record(folder: Path) -> dict[str, Any]:
    """Return what a stage noted about itself; empty when there is no readable record."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def output_hash(folder: Path) -> str:
    """Return a hash of everything that a stage wrote.

    Left out are its own record and resumable checkpoints. Manifests count by name alone: they carry the time, and a
    stage that made the same again must not make the following ones run.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        resumable = any(part.startswith("checkpoint") for part in inside.parts[:-1])
        if path.is_file() and path.name != RECORD and not resumable:
            content = "manifest" if path.name.endswith("manifest.json") else file_hash(path)
            digest.update(f"{inside}\0{content}\n".encode())
    return digest.hexdigest()


def make_empty(folder: Path) -> None:
    """Make a stage's folder, or empty it; its record stays until it is overwritten, so that it is known as ours.

    Args:
        folder: The folder; its name is the stage's.

    Raises:
        ConfigError: If it holds files and no record of this stage: they may be anybody's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = [path for path in folder.iterdir() if path.name != RECORD]
    if content and read_record(folder).get("stage") != folder.name:
        raise ConfigError(
            f"{folder} holds files (such as {min(content).name}) that no stage wrote: there is no {RECORD} of stage "
            f"{folder.name!r}. Nothing was removed; choose another `out`, or move these files away"
        )
    for path in content:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
