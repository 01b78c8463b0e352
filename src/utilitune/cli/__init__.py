"""The command line: one file a verb.

Exit codes: 0 fine, 1 input at fault, 2 wrong usage, 3 a threshold stopped the run, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from utilitune import __version__
from utilitune.cli import (
    answer,
    calibrate,
    compare,
    doctor,
    evaluate,
    export_reranker,
    index,
    judge,
    label,
    labels,
    models,
    pairs,
    report,
    rerank,
    retrieve,
    rewrite,
    run,
    sample,
    study,
    train,
    utilities,
    validate,
    win_rate,
)
from utilitune.errors import ThresholdError, UtilituneError

app = typer.Typer(
    name="utilitune",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"utilitune {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Train the retrieval side of RAG with the generator's own utility as supervision."""


verbs = (
    validate,
    sample,
    index,
    retrieve,
    label,
    utilities,
    pairs,
    rewrite,
    calibrate,
    rerank,
    answer,
    evaluate,
    report,
    compare,
    win_rate,
    run,
    doctor,
)
for verb in verbs:
    app.command(verb.NAME)(verb.command)
train.app.command(export_reranker.NAME)(export_reranker.command)
app.add_typer(train.app, name="train")
app.add_typer(models.app, name="models")
app.add_typer(labels.app, name="labels")
app.add_typer(judge.app, name="judge")
app.add_typer(study.app, name="study")

_INTERRUPTED = "interrupted; what is finished is kept, the same command goes on from there\n"


def main() -> None:
    """Entry point: errors that a user can act on are printed without a traceback."""
    try:
        app()
    except UtilituneError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(3 if isinstance(error, ThresholdError) else 1)
    except OSError as error:  # a full disk, a file without rights: nothing of ours is broken
        named = f"{error.filename}: " if error.filename is not None else ""
        sys.stderr.write(f"error: {named}{error.strerror or error}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write(_INTERRUPTED)
        sys.exit(130)
    except SystemExit as ended:
        if ended.code == 130:  # how typer ends on Ctrl-C, without a word
            sys.stderr.write(_INTERRUPTED)
        raise
