"""``utilitune utilities``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

NAME = "utilities"


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Tell everything of these: names, or your own as module:Class.", show_default=False),
    ] = None,
) -> None:
    """List the utilities: name, whether gold answers are needed, one-line meaning, cost. With names: all of each.

    Example: utilitune utilities information-gain
    """
    from utilitune.scoring import UTILITIES, describe

    if not names:
        for name in UTILITIES:
            found = describe(name)
            typer.echo(f"{name}\t{gold(found.needs_answers)}\t{found.meaning}\tCost: {found.cost}")
        return
    for name in names:
        found = describe(name)
        typer.echo(f"{found.name}: {found.meaning}")
        typer.echo(f"  Gold answers: {gold(found.needs_answers)}")
        for field, text in found.fields.items():
            typer.echo(f"  {field}: {text}")
        typer.echo(f"  Parameters: {json.dumps(found.parameters, ensure_ascii=False, default=str)}")


def gold(needed: bool) -> str:
    """Say whether gold answers are needed."""
    return "needs gold answers" if needed else "no gold answers needed"
