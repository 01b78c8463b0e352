"""``utilitune rerank``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data, part_of_run
from utilitune.cli.options import Data, OnBadLine, Out, Quiet, Split
from utilitune.cli.out import check_file
from utilitune.errors import ConfigError

NAME = "rerank"


def command(
    data: Data,
    run: Annotated[Path, typer.Option(help="TREC run to rerank.")],
    reranker: Annotated[Path, typer.Option(help="Folder of a trained reranker.")],
    out: Out,
    depth: Annotated[int, typer.Option(min=1, help="Candidates to rerank; those below keep their order.")] = 20,
    split: Split = Part.all,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Rerank a run. The first stage is fixed: nothing that it missed is added.

    Example: utilitune rerank my-data --run bm25.trec --reranker my-reranker --out reranked.trec
    """
    from utilitune.records import read_run, write_run
    from utilitune.rerank import UtilityReranker

    check_file(out)
    if not (reranker / "config.json").is_file():
        raise ConfigError(f"--reranker: {reranker} is no model folder; give the --out of `utilitune train reranker`")
    dataset = open_data(data, on_bad_line, split)
    candidates = part_of_run(read_run(run), dataset, split)
    loaded = UtilityReranker.load(reranker)
    reranked = loaded.rerank(candidates, dataset, depth=depth)
    write_run(out, reranked)
    counts = ", ".join(f"{name} {count}" for name, count in loaded.counts.items() if count)
    typer.echo(f"{len(reranked)} queries reranked, written to {out}" + (f" ({counts})" if counts else ""))
