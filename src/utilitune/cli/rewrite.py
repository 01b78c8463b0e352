"""``utilitune rewrite``."""

from __future__ import annotations

from typing import Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data
from utilitune.cli.options import DEFAULT_GENERATOR, Data, OnBadLine, Out, Quiet, Split
from utilitune.cli.out import check_file

NAME = "rewrite"


def command(
    data: Data,
    out: Out,
    rewriter: Annotated[str, typer.Option(help="Folder of a trained rewriter, or a model to use untuned.")] = (
        DEFAULT_GENERATOR
    ),
    split: Split = Part.all,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many turns with history.")] = None,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Turn conversational questions into search queries. A bad rewrite falls back to the question, counted.

    Example: utilitune rewrite my-data --rewriter my-rewriter --out rewrites.jsonl
    """
    from utilitune.records import write_rows
    from utilitune.rewrite import Rewriter

    check_file(out)
    turns = [query for query in open_data(data, on_bad_line, split).queries if query.history][:limit]
    loaded = Rewriter.load(rewriter)
    rewrites = loaded.rewrite_batch(turns)
    write_rows(
        out,
        [
            {"query_id": turn.id, "text": rewrite.text, "fallback": rewrite.fallback}
            for turn, rewrite in zip(turns, rewrites, strict=True)
        ],
    )
    counts = loaded.counts
    typer.echo(
        f"{len(turns)} turns rewritten, {counts['fallback']} fell back to the question, {counts['cut']} cut at "
        f"{loaded.max_new_tokens} tokens, written to {out}"
    )
