"""A stage: named work in a folder of its own, skipped while nothing that it depends on has changed."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from utilitune.errors import ConfigError
from utilitune.progress import say
from utilitune.recipe.identities import identities, library_versions, source_hash, with_imports
from utilitune.recipe.stage_folder import RECORD, make_empty, output_hash, read_record
from utilitune.records import manifest, write_json

if TYPE_CHECKING:
    from utilitune.recipe.schema import Recipe
    from utilitune.recipe.workspace import Workspace

WORKSPACE = Path(__file__).with_name("workspace.py")
Outcome = Literal["ran", "unchanged", "left out"]


def _always(workspace: Workspace) -> str | None:
    del workspace
    return None


@dataclass(frozen=True)
class Stage:
    """One step of the line.

    Attributes:
        name: Name for ``--only`` and for the folder.
        about: What it does, for a reader.
        needs: Stages whose outputs it reads.
        keys: Recipe keys that it reads, such as ``generator`` or ``rewriter.pairs``. Where one names a model or a
            utility, what that is right now counts, not its name alone.
        code: Subpackages that it calls; what these import counts along, and so do ``stage_files``.
        action: Does the work inside ``workspace.folder(name)``; returns counts for the record.
        left_out: Returns why the stage has nothing to do for this recipe and data, or ``None``.
    """

    name: str
    about: str
    needs: tuple[str, ...]
    keys: tuple[str, ...]
    code: tuple[str, ...]
    action: Callable[[Workspace], Mapping[str, Any]]
    left_out: Callable[[Workspace], str | None] = _always

    def settings(self, recipe: Recipe) -> dict[str, Any]:
        """Return the values of ``keys``, JSON-ready."""
        return {key: recipe.value(key) for key in self.keys}

    def reads(self, key: str) -> bool:
        """Tell whether ``keys`` hold a recipe key, or a section that it lies in."""
        return any(f"{key}.".startswith(f"{own}.") for own in self.keys)


def stage_files(stage: Stage) -> tuple[Path, ...]:
    """Return the stage's own module, and the other stages' modules that it takes functions from, directly or not."""
    found: dict[Path, None] = {}
    waiting = [Path(inspect.getfile(stage.action))]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = None
            names = re.findall(r"^from utilitune\.recipe\.stages\.(\w+) import", path.read_text(encoding="utf-8"), re.M)
            waiting += [WORKSPACE.with_name("stages") / f"{name}.py" for name in names]
    return tuple(found)


def dependencies(stage: Stage, workspace: Workspace) -> dict[str, Any]:
    """Return everything that the stage's outputs depend on.

    Args:
        stage: The stage.
        workspace: The run.

    Returns:
        JSON-ready parts, by kind.

    Raises:
        ConfigError: If a stage that it needs is not complete.
    """
    upstream = {}
    for name in stage.needs:
        record = read_record(workspace.folder(name))
        if record.get("status") not in ("done", "left out"):
            raise ConfigError(f"stage {stage.name!r} reads what {name!r} writes, which is not there; run it first")
        upstream[name] = record.get("outputs", "left out")
    packages = with_imports(stage.code)
    return {
        "settings": stage.settings(workspace.recipe),
        "identities": identities(workspace.recipe, stage.keys),
        "files": {
            **(workspace.input_files() if stage.reads("data") else {}),
            **(workspace.transfer_files() if stage.reads("evaluation.transfer") else {}),
        },
        "upstream": upstream,
        "code": source_hash(packages, (*stage_files(stage), WORKSPACE)),
        "libraries": library_versions(packages),
    }


def fingerprint(parts: Mapping[str, Any]) -> str:
    """Hash the dependencies of a stage."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def is_current(stage: Stage, workspace: Workspace) -> bool:
    """Return whether the stage's outputs are whole and what the recipe would make of its inputs now."""
    folder = workspace.folder(stage.name)
    record = read_record(folder)
    if stage.left_out(workspace) is not None:
        return record.get("status") == "left out"
    if record.get("status") != "done" or record.get("outputs") != output_hash(folder):
        return False
    return bool(record.get("fingerprint") == fingerprint(dependencies(stage, workspace)))


def require_current(names: Iterable[str], stages: Mapping[str, Stage], workspace: Workspace) -> None:
    """Refuse to build on stages that are missing, damaged, or made from other inputs.

    Args:
        names: Stages whose outputs are about to be read.
        stages: All stages, in the order in which they run.
        workspace: The run.

    Raises:
        ConfigError: Naming the first stage to run.
    """
    behind: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        behind.add(name)
        waiting += stages[name].needs
    for name in stages:
        if name in behind and not is_current(stages[name], workspace):
            raise ConfigError(
                f"stage {name!r} is missing, damaged, or was made with other settings, inputs or code; "
                f"run it first: --only {name}, or the whole recipe without --only"
            )


def run_stage(stage: Stage, workspace: Workspace) -> Outcome:
    """Run a stage unless its outputs are there and everything that made them is unchanged.

    An interrupted stage keeps its folder when it starts again with the same fingerprint, so that work which knows
    how to resume does.

    Args:
        stage: The stage.
        workspace: The run.

    Returns:
        What happened.

    Raises:
        ConfigError: If a stage that it needs is not complete, or its folder holds files of somebody else.
    """
    folder = workspace.folder(stage.name)
    reason = stage.left_out(workspace)
    if reason is not None:
        make_empty(folder)
        write_json(folder / RECORD, {"stage": stage.name, "status": "left out", "reason": reason})
        say(f"[none] {stage.name}: {reason}")
        return "left out"
    if is_current(stage, workspace):
        say(f"[same] {stage.name}: unchanged since {read_record(folder).get('finished', 'the last run')}")
        return "unchanged"
    parts = dependencies(stage, workspace)
    head = {"stage": stage.name, "fingerprint": fingerprint(parts)}
    before = read_record(folder)
    if before.get("status") != "started" or before.get("fingerprint") != head["fingerprint"]:
        make_empty(folder)
    say(f"[run ] {stage.name}: {stage.about}")
    start = time.monotonic()
    write_json(folder / RECORD, {**head, "status": "started"})
    workspace.models.clear()
    counts = stage.action(workspace)
    seconds = time.monotonic() - start
    record = manifest(
        **head,
        status="done",
        outputs=output_hash(folder),
        finished=time.strftime("%Y-%m-%d %H:%M:%S"),
        seconds=round(seconds, 1),
        seed=workspace.recipe.seed,
        inputs=parts,
        models=dict(workspace.models),
        counts=dict(counts),
    )
    write_json(folder / RECORD, record)
    shown = ", ".join(f"{name} {value}" for name, value in counts.items() if value not in (0, "", None))
    say(f"[done] {stage.name}: {seconds:.0f} s" + (f" ({shown})" if shown else ""))
    return "ran"
