"""``utilitune label``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data, part_of_run
from utilitune.cli.options import (
    BATCH_TOKENS,
    DEFAULT_GENERATOR,
    MAX_FAILED,
    BatchTokens,
    Data,
    GeneratorSpec,
    MaxFailed,
    OnBadLine,
    Out,
    Quiet,
    Split,
    Store,
    command_line,
)
from utilitune.cli.out import check_apart, check_store

NAME = "label"


def command(
    data: Data,
    run: Annotated[Path, typer.Option(help="TREC run whose candidates are labelled.")],
    out: Out,
    utility: Annotated[
        list[str] | None,
        typer.Option("--utility", "-u", help="Utility name; give it again for more. Default: question-gain."),
    ] = None,
    generator: GeneratorSpec = DEFAULT_GENERATOR,
    k: Annotated[int, typer.Option("-k", min=1, help="Candidates a query.")] = 10,
    sets: Annotated[bool, typer.Option("--sets", help="Label the top k as one passage set, not each passage.")] = False,
    split: Split = Part.all,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many queries of the run.")] = None,
    store: Store = None,
    batch_tokens: BatchTokens = BATCH_TOKENS,
    max_failed: MaxFailed = MAX_FAILED,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Label candidates by how much they help the generator. Killed and started again, it goes on.

    The store defaults to OUT with the ending .sqlite.

    Example: utilitune label my-data --run bm25.trec --split train -k 10 --out labels.jsonl
    """
    from utilitune.generator import load_generator
    from utilitune.records import Run, read_run
    from utilitune.scoring import DEFAULT_UTILITY, label_file, make_utility

    store = check_store(out, store)
    check_apart(out, data, run)
    utilities = [make_utility(name) for name in utility or [DEFAULT_UTILITY]]
    dataset = open_data(data, on_bad_line, split)
    candidates = part_of_run(read_run(run), dataset, split)
    if limit is not None:
        candidates = Run(list(candidates.items())[:limit])
        dataset = dataset.subset([query for query in dataset.queries if query.id in candidates])
    labels = label_file(
        out,
        dataset,
        candidates,
        utilities,
        load_generator(generator, batch_tokens=batch_tokens),
        k=k,
        store=store,
        sets=sets,
        max_failed=max_failed,
        command=command_line(),
    )
    counts = labels.manifest.get("counts", {})
    typer.echo(", ".join(f"{name} {value}" for name, value in counts.items()))
    typer.echo(f"{len(labels)} labels written to {out}")
