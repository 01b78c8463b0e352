"""``utilitune validate``."""

from __future__ import annotations

import typer

from utilitune.cli.options import Data, Quiet

NAME = "validate"


def command(
    data: Data,
    quiet: Quiet = False,
) -> None:
    """Check a data folder: counts, length quantiles, every problem as file:line. Exit 1 on errors.

    Example: utilitune validate my-data
    """
    from utilitune.records import validate_folder

    report = validate_folder(data)
    typer.echo(report.text())
    if not report.ok:
        raise typer.Exit(1)
