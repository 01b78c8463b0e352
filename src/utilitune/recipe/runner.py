"""Runs a recipe, stage by stage."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from utilitune.errors import ConfigError, DataError
from utilitune.progress import say
from utilitune.recipe.hub import missing_models
from utilitune.recipe.identities import identities, named_models
from utilitune.recipe.schema import SAMPLE, Recipe
from utilitune.recipe.stage import Outcome, require_current, run_stage
from utilitune.recipe.stages import STAGES
from utilitune.recipe.workspace import Workspace
from utilitune.records import read_json, write_json


def plan(recipe: Recipe) -> list[str]:
    """Return the stage names in the order in which they run, with what each does."""
    return [f"{stage.name}: {stage.about}" for stage in STAGES.values()]


def run_recipe(recipe: Recipe, *, only: Sequence[str] = ()) -> dict[str, Outcome]:
    """Run all stages of a recipe, or only some of them.

    Args:
        recipe: The recipe.
        only: Stage names; everything that they read must be there and up to date.

    Returns:
        What happened to each stage.

    Raises:
        ConfigError: For an unknown stage name, what ``check_inputs`` refuses, an output folder that another run holds,
            or when ``only`` names a stage whose inputs are missing or out of date.
    """
    unknown = [name for name in only if name not in STAGES]
    if unknown:
        raise ConfigError(f"unknown stage(s) {', '.join(unknown)}; the stages are: {', '.join(STAGES)}")
    check_inputs(recipe)
    # All that the recipe names is looked up before the first stage, a user's own utilities included.
    identities(recipe, Recipe.model_fields)
    start = time.monotonic()
    workspace = Workspace(recipe)
    outcomes: dict[str, Outcome] = {}
    with held(recipe.out):
        for name, stage in STAGES.items():
            if only and name not in only:
                continue
            if only:
                require_current(stage.needs, STAGES, workspace)
            outcomes[name] = run_stage(stage, workspace)
    ran = sum(outcome == "ran" for outcome in outcomes.values())
    say(f"{recipe.name}: {ran} of {len(outcomes)} stages ran, {time.monotonic() - start:.0f} s; output in {recipe.out}")
    return outcomes


def check_inputs(recipe: Recipe) -> None:
    """Look for data and models, and at where the output goes; no model is loaded, nothing written.

    Args:
        recipe: The recipe.

    Raises:
        ConfigError: Listing what is not there, or naming folders that lie inside each other.
    """
    check_places(recipe)
    found = []
    if recipe.data != SAMPLE and not recipe.data.is_dir():
        found.append(f"data: {recipe.data} is not a folder; expected a BEIR folder (--set data=FOLDER) or 'sample'")
    found += [
        f"evaluation.transfer: {folder} is not a folder; expected a BEIR folder with conversations"
        for folder in recipe.evaluation.transfer
        if not folder.is_dir()
    ]
    found += [
        f"evaluation.transfer: {folder} is the recipe's own data; expected data that no training has seen"
        for folder in recipe.evaluation.transfer
        if recipe.data != SAMPLE and folder.resolve() == recipe.data.resolve()
    ]
    found += missing_models(named_models(recipe))
    if found:
        raise ConfigError(f"{recipe.name}: {len(found)} problem(s)\n" + "\n".join(f"  {problem}" for problem in found))


def check_places(recipe: Recipe) -> None:
    """Refuse an output that is a file or inside the data, and data inside a stage's folder: stages empty their folders.

    Args:
        recipe: The recipe.

    Raises:
        ConfigError: Naming both folders.
    """
    if recipe.out.exists() and not recipe.out.is_dir():
        raise ConfigError(f"out: {recipe.out} is a file, expected a folder; choose another `out`")
    if recipe.data == SAMPLE:
        return
    data, out = recipe.data.resolve(), recipe.out.resolve()
    if out.is_relative_to(data):
        raise ConfigError(f"out ({out}) lies inside data ({data}); choose an `out` outside of the data")
    for name in STAGES:
        if data.is_relative_to(out / name):
            raise ConfigError(f"data ({data}) lies in {out / name}, which stage {name!r} empties; choose another `out`")


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Keep other runs out of an output folder.

    Args:
        out: The folder; made if needed.

    Yields:
        Nothing.

    Raises:
        ConfigError: If another process holds it, naming that process.
    """
    out.mkdir(parents=True, exist_ok=True)
    holder = out / "run.holder.json"
    try:
        lock = FileLock(out / "run.lock", timeout=0).acquire()
    except Timeout:
        try:
            found = read_json(holder)
        except DataError:
            found = {}
        who = f"process {found.get('process', '?')} on {found.get('host', '?')} since {found.get('since', '?')}"
        raise ConfigError(f"{out} is in use by another run ({who}); wait for it, or choose another `out`") from None
    with lock:
        facts = {"process": os.getpid(), "host": platform.node(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        write_json(holder, facts)
        try:
            yield
        finally:
            holder.unlink(missing_ok=True)
