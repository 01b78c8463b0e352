"""``utilitune rewrite``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data, open_index
from utilitune.cli.options import (
    DEFAULT_GENERATOR,
    Aggregate,
    Data,
    Fused,
    GeneratorSpec,
    Include,
    OnBadLine,
    Out,
    Quiet,
    Scale,
    Split,
    Store,
    warn_of_unused,
)
from utilitune.cli.out import check_file, check_store
from utilitune.cli.pairs import DEFAULT_UTILITIES, named
from utilitune.errors import ConfigError

NAME = "rewrite"
CHOICE = {
    "index": "--index",
    "generator": "--generator",
    "utility": "--utility",
    "include": "--include",
    "k": "-k",
    "aggregate": "--aggregate",
    "scale": "--scale",
    "fused": "--fused",
    "store": "--store",
}
"""Options of the choice that ``--best-of`` makes."""


def command(
    context: typer.Context,
    data: Data,
    out: Out,
    rewriter: Annotated[str, typer.Option(help="Folder of a trained rewriter, or a model to use untuned.")] = (
        DEFAULT_GENERATOR
    ),
    split: Split = Part.all,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many turns with history.")] = None,
    base: Annotated[str | None, typer.Option(help="Where a trained rewriter's base is, if it has moved.")] = None,
    best_of: Annotated[
        int, typer.Option(min=0, help="Sample so many and take the most useful one; 0: the greedy rewrite.")
    ] = 0,
    index: Annotated[list[Path] | None, typer.Option("--index", "-i", help="--best-of: index to search with.")] = None,
    generator: GeneratorSpec = DEFAULT_GENERATOR,
    utility: Annotated[list[str] | None, typer.Option("--utility", "-u", help="--best-of: what counts.")] = None,
    include: Include = None,
    k: Annotated[int, typer.Option("-k", min=1, help="--best-of: passages a rewrite.")] = 3,
    aggregate: Aggregate = "max",
    scale: Scale = "pooled",
    fused: Fused = False,
    store: Store = None,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Turn conversational questions into search queries. A bad rewrite falls back to the question, counted.

    With --best-of the generator (--generator) says which of several rewrites finds what it can use, by the reward of
    `utilitune pairs`.

    Example: utilitune rewrite my-data --rewriter my-rewriter --out rewrites.jsonl
    """
    from utilitune.rewrite import BestOf, Rewriter
    from utilitune.rewrite.aggregate import check_names
    from utilitune.rewrite.rewriter import write_rewrites
    from utilitune.rewrite.sample import EXTRA_SOURCES, check_sources
    from utilitune.scoring import make_utility

    check_file(out)
    kept = check_store(out, store) if best_of else None
    if best_of and not index:
        raise ConfigError("--best-of: the choice is by what each rewrite finds; give --index INDEX")
    check_names(aggregate, scale)
    check_sources(include or ())
    if not best_of:
        warn_of_unused(context, CHOICE, "rewrite: without --best-of it is the greedy rewrite that is taken")
    utilities = [make_utility(name) for name in utility or DEFAULT_UTILITIES] if best_of else []
    dataset = open_data(data, on_bad_line, split)
    turns = [query for query in dataset.queries if query.history][:limit]
    from utilitune.generator import load_generator

    loaded = Rewriter.load(rewriter, base=base)
    chooser: Rewriter | BestOf = loaded
    if best_of:
        same = loaded.generator.identity.model == generator and not loaded.generator.identity.adapter
        chooser = BestOf(
            loaded,
            {name: open_index(folder, dataset) for name, folder in named(index or []).items()},
            dataset.corpus,
            utilities,
            loaded.generator if same else load_generator(generator),
            n=best_of,
            include=include or EXTRA_SOURCES,
            k=k,
            aggregate=aggregate,
            scale=scale,
            fused=fused,
            store=kept,
        )
    write_rewrites(out, chooser.rewrite_batch(turns))
    counts = chooser.counts
    typer.echo(
        f"{len(turns)} turns rewritten, {counts['fallback']} fell back to the question, {counts['cut']} cut at "
        f"{loaded.max_new_tokens} tokens, written to {out}"
    )
