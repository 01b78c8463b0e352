"""``utilitune run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.options import Quiet

NAME = "run"


def command(
    recipe: Annotated[Path, typer.Argument(help="Recipe (YAML).", show_default=False)],
    only: Annotated[list[str] | None, typer.Option(help="Run only this stage; give it again for more.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Override: key.path=value; give it again for more.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check recipe, data, models; print the stages.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run a recipe: every stage whose inputs, settings or code changed, then print the table.

    Example: utilitune run recipes/quickstart/recipe.yaml --set rewriter.training.epochs=1
    """
    from utilitune.recipe import Recipe, check_inputs, plan, run_recipe

    checked = Recipe.load(recipe, settings or [])
    if dry_run:
        check_inputs(checked)
        typer.echo(f"{checked.name}: {checked.about}\n" + "\n".join(plan(checked)))
        return
    run_recipe(checked, only=only or [])
    table = checked.out / "evaluate" / "table.txt"
    if table.exists() and (not only or "evaluate" in only):
        typer.echo(table.read_text(encoding="utf-8"))
        typer.echo(f"report: {table.with_name('report.md')}")
