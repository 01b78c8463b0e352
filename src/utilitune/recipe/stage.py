"""A stage: named work in a folder of its own, skipped while nothing that it depends on has changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from utilitune import __version__
from utilitune.errors import ConfigError
from utilitune.progress import say
from utilitune.records import file_hash, manifest, write_json

if TYPE_CHECKING:
    from utilitune.recipe.schema import Recipe
    from utilitune.recipe.workspace import Workspace

PACKAGE = Path(__file__).resolve().parents[1]
RECORD = "stage.json"
Outcome = Literal["ran", "unchanged", "left out"]


@dataclass(frozen=True)
class Stage:
    """One step of the line.

    Attributes:
        name: Name for ``--only`` and for the folder.
        about: What it does, for a reader.
        needs: Stages whose outputs it reads.
        code: Subpackages whose source can change its outputs.
        settings: The part of the recipe (JSON-ready) that can change its outputs.
        action: Does the work inside ``workspace.folder(name)``; returns counts for the manifest.
        left_out: Returns why the stage has nothing to do for this recipe and data, or ``None``.
    """

    name: str
    about: str
    needs: tuple[str, ...]
    code: tuple[str, ...]
    settings: Callable[[Recipe], Any]
    action: Callable[[Workspace], Mapping[str, Any]]
    left_out: Callable[[Workspace], str | None] = lambda workspace: None


def source_hash(packages: tuple[str, ...]) -> str:
    """Return a hash of the sources and data files of some subpackages, and of the version."""
    digest = hashlib.sha256(__version__.encode())
    for package in sorted(packages):
        for path in sorted((PACKAGE / package).rglob("*")):
            if path.suffix in {".py", ".yaml"}:
                digest.update(f"{path.relative_to(PACKAGE)}\0{file_hash(path)}\n".encode())
    return digest.hexdigest()


def output_hash(folder: Path) -> str:
    """Return a hash of everything that a stage wrote, its own record and resumable checkpoints left out."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and path.name != RECORD and not inside.parts[0].startswith("checkpoint"):
            digest.update(f"{inside}\0{file_hash(path)}\n".encode())
    return digest.hexdigest()


def _record(folder: Path) -> dict[str, Any]:
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def fingerprint(stage: Stage, workspace: Workspace) -> str:
    """Hash everything that the stage's outputs depend on.

    Raises:
        ConfigError: If a stage that it needs is not complete.
    """
    upstream = {}
    for name in stage.needs:
        record = _record(workspace.folder(name))
        if record.get("status") == "left out":
            upstream[name] = "left out"
        elif record.get("status") == "done":
            upstream[name] = record["outputs"]
        else:
            raise ConfigError(f"stage {stage.name!r} reads what {name!r} writes, which is not there; run it first")
    parts = {
        "settings": stage.settings(workspace.recipe),
        "upstream": upstream,
        "code": source_hash(stage.code),
        "inputs": workspace.inputs(stage.name),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def run_stage(stage: Stage, workspace: Workspace) -> Outcome:
    """Run a stage unless its outputs are there and everything that made them is unchanged.

    An interrupted stage keeps its folder when it starts again with the same fingerprint, so that work which knows
    how to resume does.

    Returns:
        What happened.

    Raises:
        ConfigError: If a stage that it needs is not complete.
    """
    folder = workspace.folder(stage.name)
    reason = stage.left_out(workspace)
    if reason is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / RECORD, {"stage": stage.name, "status": "left out", "reason": reason})
        say(f"[none] {stage.name}: {reason}")
        return "left out"
    key = fingerprint(stage, workspace)
    before = _record(folder)
    same = before.get("fingerprint") == key
    if same and before.get("status") == "done" and before.get("outputs") == output_hash(folder):
        say(f"[same] {stage.name}: unchanged since {before.get('finished', 'the last run')}")
        return "unchanged"
    if folder.exists() and not (same and before.get("status") == "started"):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    say(f"[run ] {stage.name}: {stage.about}")
    start = time.monotonic()
    write_json(folder / RECORD, {"stage": stage.name, "status": "started", "fingerprint": key})
    counts = stage.action(workspace)
    seconds = time.monotonic() - start
    write_json(
        folder / RECORD,
        manifest(
            stage=stage.name,
            status="done",
            fingerprint=key,
            outputs=output_hash(folder),
            finished=time.strftime("%Y-%m-%d %H:%M:%S"),
            seconds=round(seconds, 1),
            settings=stage.settings(workspace.recipe),
            seed=workspace.recipe.seed,
            counts=dict(counts),
        ),
    )
    shown = ", ".join(f"{name} {value}" for name, value in counts.items() if value not in (0, "", None))
    say(f"[done] {stage.name}: {seconds:.0f} s" + (f" ({shown})" if shown else ""))
    return "ran"
