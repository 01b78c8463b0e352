"""Recipes: the whole line from one YAML file."""

from __future__ import annotations

from collections.abc import Sequence

from utilitune.recipe.schema import Recipe

__all__ = ["Recipe", "check_inputs", "plan", "run_recipe"]


def check_inputs(recipe: Recipe) -> None:
    """Look for data and models, and at where the output goes; see ``utilitune.recipe.runner``."""
    from utilitune.recipe import runner

    runner.check_inputs(recipe)


def plan(recipe: Recipe) -> list[str]:
    """Return the stages in the order in which they run, each as ``name: what it does``."""
    from utilitune.recipe import runner

    return runner.plan(recipe)


def run_recipe(recipe: Recipe, *, only: Sequence[str] = ()) -> dict[str, str]:
    """Run all stages of a recipe, or only those named; see ``utilitune.recipe.runner``."""
    from utilitune.recipe import runner

    return dict(runner.run_recipe(recipe, only=only))
