"""Checkpoints of a training run: which is the newest complete one, and does it belong to this run."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.progress import say
from utilitune.records import write_json

_NAME = re.compile(r"checkpoint-(\d+)")
# Written in this order; trainer_state.json is the last.
_PARTS = ("adapter_model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json")
INPUTS = "inputs.json"


def newest_complete(folder: Path) -> Path | None:
    """Return the newest checkpoint that has all its parts and a readable state, ``None`` without one.

    Args:
        folder: Folder with ``checkpoint-<step>`` folders; may be missing.

    Returns:
        Its path. A half-written one (the run was killed while saving) is passed over with a notice.
    """
    found = sorted(
        ((int(match[1]), path) for path in folder.glob("checkpoint-*") if (match := _NAME.fullmatch(path.name))),
        reverse=True,
    )
    for step, path in found:
        if _complete(path, step):
            return path
        say(f"{path.name} is incomplete (interrupted while saving?); looking for an earlier one")
    return None


def prepare(folder: Path, inputs: Mapping[str, Any], *, resume: bool) -> Path | None:
    """Make the checkpoint folder ready and return what to resume from.

    Args:
        folder: Checkpoint folder of the run.
        inputs: Everything that makes the run what it is; JSON-ready.
        resume: Go on from the newest complete checkpoint; otherwise older ones are removed.

    Returns:
        The checkpoint, or ``None`` to start from the beginning.

    Raises:
        ConfigError: When the checkpoints belong to a run with other inputs.
    """
    note = folder / INPUTS
    start = newest_complete(folder) if resume else None
    if start is not None:
        earlier = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
        changed = [key for key in inputs if earlier.get(key) != inputs[key]]
        if changed:
            raise ConfigError(
                f"cannot resume from {start}: {', '.join(changed)} changed since; "
                "train without resume, or into another folder"
            )
        say(f"resuming from {start.name}")
        return start
    if resume:
        say("nothing to resume from; starting at step 0")
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    write_json(note, dict(inputs))
    return None


def _complete(path: Path, step: int) -> bool:
    if not all((path / part).is_file() and (path / part).stat().st_size for part in _PARTS):
        return False
    try:
        state = json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
    except ValueError:
        return False
    return bool(state.get("global_step") == step)
