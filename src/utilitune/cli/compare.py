"""``utilitune compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data
from utilitune.cli.options import (
    ClusterBy,
    Gamma,
    OnBadLine,
    Out,
    Quiet,
    RelevanceSource,
    Split,
    Ties,
    Unjudged,
    command_line,
    named_files,
)
from utilitune.cli.out import check_folder
from utilitune.errors import ConfigError

NAME = "compare"


def command(
    systems: Annotated[
        list[str],
        typer.Argument(
            help="Two or more: run.trec, or the folder of an evaluation; NAME=PATH names it. The first is 'before'.",
            show_default=False,
        ),
    ],
    out: Out,
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="BEIR folder; needed for runs, and for texts.")
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="Measure; give it again for more. Any wrong one lists all."),
    ] = None,
    before: Annotated[str | None, typer.Option(help="The system that the others are compared with.")] = None,
    by: Annotated[str | None, typer.Option(help="Measure of the largest changes; the first unless given.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Labels that hold UDCG's utility, for UDCG@k.")] = None,
    utility: Annotated[str, typer.Option(help="Which of these labels.")] = "abstention",
    answers: Annotated[
        list[str] | None, typer.Option(help="name=answers.jsonl, named like a system; scored and shown.")
    ] = None,
    rewrites: Annotated[
        list[str] | None,
        typer.Option(help="name=rewrites.jsonl (rows of query_id, text), named like a system; shown."),
    ] = None,
    relevance: RelevanceSource = "judged",
    relevant_from: Annotated[
        float | None,
        typer.Option(help="Grade from which a passage is relevant; 1 unless given, needed for fractional grades."),
    ] = None,
    gamma: Gamma = 1 / 3,
    unjudged: Unjudged = "irrelevant",
    ties: Ties = "trec",
    cluster_by: ClusterBy = None,
    changes: Annotated[int, typer.Option(help="Largest changes to write for each system.", min=0)] = 10,
    split: Split = Part.all,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Compare systems on the same queries: paired tests, intervals, wins, and the largest changes with texts.

    Example: utilitune compare before=bm25.trec after=reranked.trec --data my-data --out comparison
    """
    from utilitune.evaluation import render_table
    from utilitune.evaluation.compare import compare, read_systems
    from utilitune.evaluation.markdown import wins
    from utilitune.evaluation.relevance import read_relevance
    from utilitune.evaluation.udcg import as_unjudged
    from utilitune.records import manifest, read_answers, read_labels, read_rewrites

    check_folder(out)
    for value in systems:
        path = Path(value.partition("=")[2] or value)
        if path.resolve().parent == (out / "runs").resolve():
            raise ConfigError(f"{path} lies where this comparison writes its rankings; give another --out")
    view = as_unjudged(unjudged)
    source = read_relevance(relevance)
    found = compare(
        read_systems(systems),
        open_data(data, on_bad_line, split) if data else None,
        measure,
        before=before,
        by=by,
        utilities=read_labels(labels).table(utility) if labels else None,
        utility_name=utility,
        answers={name: read_answers(path) for name, path in named_files(answers or [], "--answers").items()},
        rewrites={name: read_rewrites(path) for name, path in named_files(rewrites or [], "--rewrites").items()},
        relevance=source,
        relevant_from=relevant_from,
        gamma=gamma,
        unjudged=view,
        ties=ties,
        cluster_by=cluster_by,
        limit=changes,
    )
    found.write(out, title=f"Comparison: {', '.join(found.evaluation.systems)}", manifest=manifest(command_line()))
    typer.echo(render_table(found.table))
    for name, by_measure, won, tied, lost in wins({"tables": [found.table.as_dict()]}):
        typer.echo(f"{name}, {by_measure}: {won} won, {tied} tied, {lost} lost")
    typer.echo(f"\nreport: {out / 'report.md'}; as a page: utilitune report {out}")
