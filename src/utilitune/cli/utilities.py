"""``utilitune utilities``."""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer

NAME = "utilities"


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Tell everything of these: names, or your own as module:Class.", show_default=False),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="As a table for a page: formula, range, cost.")] = False,
) -> None:
    """List the utilities: name, whether gold answers are needed, one-line meaning, cost. With names: all of each.

    Example: utilitune utilities information-gain
    """
    from utilitune.scoring import UTILITIES, describe

    if markdown:
        typer.echo(_table(names or list(UTILITIES)))
        return
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


def _table(names: list[str]) -> str:
    """Return one Markdown row a utility."""
    from utilitune.scoring import describe

    rows = [["utility", "formula", "range", "gold answers", "cost"], ["---"] * 5]
    for name in names:
        found = describe(name)
        told = [_first_sentence(found.marked.get(field, "")) for field in ("Formula", "Range", "Cost")]
        rows.append([f"`{name}`", told[0], told[1], "yes" if found.needs_answers else "no", told[2]])
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)


def _first_sentence(text: str) -> str:
    return re.split(r"\.(?= [A-Z])", text)[0].removesuffix(".")


def gold(needed: bool) -> str:
    """Say whether gold answers are needed."""
    return "needs gold answers" if needed else "no gold answers needed"
