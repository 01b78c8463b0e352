"""``utilitune sample``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.options import Quiet

NAME = "sample"


def command(
    folder: Annotated[Path, typer.Argument(help="Folder to write, in BEIR form.", show_default=False)],
    passages: Annotated[int, typer.Option(min=300, help="Passages; up to 1,000,000 and more, streamed.")] = 400,
    questions: Annotated[int, typer.Option(min=1, help="Stand-alone questions.")] = 260,
    conversations: Annotated[int, typer.Option(min=1, help="Conversations of 3-5 turns.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed; the same seed writes the same bytes.")] = 7,
    quiet: Quiet = False,
) -> None:
    """Write the sample world: invented towns, people, works and firms that no model can know.

    Example: utilitune sample world --passages 400
    """
    from utilitune.sample import write_sample

    write_sample(folder, passages=passages, questions=questions, conversations=conversations, seed=seed)
    typer.echo(f"wrote {folder}")
