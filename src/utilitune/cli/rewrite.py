"""``utilitune rewrite``."""

from __future__ import annotations

from typing import Annotated

import typer

from utilitune.cli.options import DEFAULT_GENERATOR, Data, Out, Quiet

NAME = "rewrite"


def command(
    data: Data,
    out: Out,
    rewriter: Annotated[str, typer.Option(help="Folder of a trained rewriter, or a model to use untuned.")] = (
        DEFAULT_GENERATOR
    ),
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many turns with history.")] = None,
    quiet: Quiet = False,
) -> None:
    """Turn conversational questions into search queries. A bad rewrite falls back to the question, counted.

    Example: utilitune rewrite my-data --rewriter my-rewriter --out rewrites.jsonl
    """
    from utilitune.records import load_dataset, write_rows
    from utilitune.rewrite import Rewriter

    turns = [query for query in load_dataset(data).queries if query.history][:limit]
    loaded = Rewriter.load(rewriter)
    rewrites = loaded.rewrite_batch(turns)
    write_rows(
        out,
        [
            {"query_id": turn.id, "text": rewrite.text, "fallback": rewrite.fallback}
            for turn, rewrite in zip(turns, rewrites, strict=True)
        ],
    )
    fallbacks = sum(rewrite.fallback for rewrite in rewrites)
    typer.echo(f"{len(turns)} turns rewritten, {fallbacks} fell back to the question, written to {out}")
