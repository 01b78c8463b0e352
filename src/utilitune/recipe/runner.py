"""Runs a recipe, stage by stage."""

from __future__ import annotations

import time
from collections.abc import Sequence

from utilitune.errors import ConfigError
from utilitune.progress import say
from utilitune.recipe.schema import Recipe
from utilitune.recipe.stage import Outcome, run_stage
from utilitune.recipe.stages import STAGES
from utilitune.recipe.workspace import Workspace


def plan(recipe: Recipe) -> list[str]:
    """Return the stage names in the order in which they run, with what each does."""
    return [f"{stage.name}: {stage.about}" for stage in STAGES.values()]


def run_recipe(recipe: Recipe, *, only: Sequence[str] = ()) -> dict[str, Outcome]:
    """Run all stages, or only some of them.

    Args:
        recipe: The recipe.
        only: Stage names; their inputs must be there already.

    Returns:
        What happened to each stage.

    Raises:
        ConfigError: For an unknown stage name, or when ``only`` names a stage whose inputs are missing.
    """
    unknown = [name for name in only if name not in STAGES]
    if unknown:
        raise ConfigError(f"unknown stage(s) {', '.join(unknown)}; the stages are: {', '.join(STAGES)}")
    start = time.monotonic()
    workspace = Workspace(recipe)
    outcomes = {name: run_stage(stage, workspace) for name, stage in STAGES.items() if not only or name in only}
    ran = sum(outcome == "ran" for outcome in outcomes.values())
    say(f"{recipe.name}: {ran} of {len(outcomes)} stages ran, {time.monotonic() - start:.0f} s; output in {recipe.out}")
    return outcomes
