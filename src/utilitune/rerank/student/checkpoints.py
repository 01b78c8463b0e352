"""Checkpoints of a retriever training: the newest complete one, and whether it belongs to this run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.progress import say
from utilitune.records import write_json

INPUTS = "inputs.json"
# Written last: a checkpoint that has it whole has everything.
STATE = "trainer_state.json"


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
    start = _newest_complete(folder) if resume else None
    if start is not None:
        note = folder / INPUTS
        earlier = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
        changed = [name for name in inputs if earlier.get(name) != inputs[name]]
        if changed:
            raise ConfigError(
                f"cannot resume from {start}: {', '.join(changed)} changed since; "
                "train without resume, or into another folder"
            )
        _settle(start)
        say(f"resuming from {start.name}")
        return start
    if resume:
        say("nothing to resume from; starting at step 0")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_json(folder / INPUTS, dict(inputs))
    return None


def step_of(checkpoint: Path | None) -> int:
    """Return the step that a checkpoint was made at, 0 without one."""
    return int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0


def _newest_complete(folder: Path) -> Path | None:
    steps = {step_of(path): path for path in folder.glob("checkpoint-*[0-9]")}
    for step in sorted(steps, reverse=True):
        if _finished(steps[step]) == step:
            return steps[step]
        say(f"{steps[step].name} is incomplete (interrupted while saving?); looking for an earlier one")
    return None


def _settle(checkpoint: Path) -> None:
    """Tell a checkpoint where the best one is now: the path that it has is that of the folder before a move."""
    state = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    best = state.get("best_model_checkpoint")
    if best and Path(best).parent != checkpoint.parent:
        write_json(checkpoint / STATE, {**state, "best_model_checkpoint": str(checkpoint.parent / Path(best).name)})


def _finished(checkpoint: Path) -> int | None:
    try:
        state = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return int(state["global_step"])
