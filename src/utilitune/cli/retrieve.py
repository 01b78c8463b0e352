"""``utilitune retrieve``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data, open_index
from utilitune.cli.options import Data, OnBadLine, Out, Quiet, Split
from utilitune.cli.out import check_file
from utilitune.errors import ConfigError
from utilitune.records import Query

NAME = "retrieve"

FORMS: dict[str, Callable[[Query], str]] = {
    "question": lambda query: query.text,
    "first-question": lambda query: query.first_and_last,
    "human": lambda query: query.rewrite or query.text,
}


def command(
    data: Data,
    index: Annotated[list[Path], typer.Option("--index", "-i", help="Index folder; several are fused by rank.")],
    out: Out,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages a query.")] = 20,
    form: Annotated[
        str,
        typer.Option(help="Query text: question, first-question (+ question), or human (the given rewrite)."),
    ] = "question",
    rewrites: Annotated[
        Path | None, typer.Option(help="Rewrites of `utilitune rewrite`, used in place of the questions.")
    ] = None,
    split: Split = Part.all,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Retrieve k passages for every query and write a TREC run.

    Example: utilitune retrieve my-data --index indexes/bm25 -k 20 --out bm25.trec
    """
    from utilitune.records import read_rewrites, write_run
    from utilitune.retrieval import fuse

    if form not in FORMS:
        raise ConfigError(f"--form: found {form!r}, expected one of: {', '.join(FORMS)}")
    check_file(out)
    dataset = open_data(data, on_bad_line, split)
    queries = dataset.queries
    texts = {query.id: FORMS[form](query) for query in queries}
    if rewrites is not None:
        texts |= read_rewrites(rewrites)
    queries = [replace(query, text=texts[query.id]) for query in queries]
    runs = [open_index(folder, dataset).search(queries, k=k) for folder in index]
    run = runs[0] if len(runs) == 1 else fuse(runs, depth=k)
    write_run(out, run)
    empty = sum(not ranking for ranking in run.values())
    typer.echo(f"{len(run)} queries, {empty} without any hit, written to {out}")
