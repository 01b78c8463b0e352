"""``utilitune report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.options import Quiet
from utilitune.cli.out import check_folder

NAME = "report"


def command(
    run_dir: Annotated[
        Path,
        typer.Argument(help="Output folder of run, evaluate, compare, win-rate, judge or study.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write; RUN_DIR/report unless given.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML page of a run, with Markdown and LaTeX tables and the JSON they are made from.

    Example: utilitune report runs/quickstart
    """
    from utilitune.evaluation.html import write_run_report

    folder = out or run_dir / "report"
    check_folder(folder)
    paths = write_run_report(run_dir, folder)
    typer.echo("\n".join(f"{path}" for path in paths.values()))
