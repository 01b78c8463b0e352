"""``utilitune evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data, trained_on
from utilitune.cli.options import (
    ClusterBy,
    Data,
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
from utilitune.progress import warn

NAME = "evaluate"


def _warn_of_training(folder: Path, query_ids: set[str]) -> None:
    learnt = trained_on(folder) & query_ids
    if learnt:
        warn(
            f"{folder} learnt from {len(learnt)} of the {len(query_ids)} queries (such as {min(learnt)!r}): the gain "
            "on new ones is another; label and pair with --split train, evaluate with --split test"
        )


def command(
    data: Data,
    out: Out,
    run: Annotated[list[str], typer.Option(help="name=run.trec; give it again for more. The first is 'before'.")],
    labels: Annotated[Path | None, typer.Option(help="Labels that hold UDCG's utility, for UDCG@k.")] = None,
    utility: Annotated[str, typer.Option(help="Which of these labels.")] = "abstention",
    answers: Annotated[
        list[str] | None, typer.Option(help="name=answers.jsonl, named like a run, for EM, F1, contains.")
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="Measure; give it again for more. Any wrong one lists all."),
    ] = None,
    only_answered: Annotated[
        bool,
        typer.Option("--only-answered", help="Leave queries without a result out instead of counting 0."),
    ] = False,
    relevance: RelevanceSource = "judged",
    relevant_from: Annotated[
        float | None,
        typer.Option(help="Grade from which a passage is relevant; 1 unless given, needed for fractional grades."),
    ] = None,
    gamma: Gamma = 1 / 3,
    unjudged: Unjudged = "irrelevant",
    ties: Ties = "trec",
    cluster_by: ClusterBy = None,
    split: Split = Part.all,
    trained: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of a trained reranker or rewriter; warns where it learnt from these queries."),
    ] = None,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Score runs against the judgements: a before ▶ after table with paired intervals, and a report.

    Example: utilitune evaluate my-data --run before=bm25.trec --run after=reranked.trec --split test --out report
    """
    from utilitune.evaluation import evaluate, find_clusters, render_table, write_report
    from utilitune.evaluation.relevance import read_relevance
    from utilitune.evaluation.udcg import as_unjudged
    from utilitune.records import manifest, read_answers, read_labels, read_run, write_text

    check_folder(out)
    view = as_unjudged(unjudged)
    source = read_relevance(relevance)
    runs = {name: read_run(path) for name, path in named_files(run, "--run").items()}
    given = {name: read_answers(path) for name, path in named_files(answers or [], "--answers").items()}
    if unknown := [name for name in given if name not in runs]:
        raise ConfigError(f"--answers of {', '.join(unknown)}: no such run; they are: {', '.join(runs)}")
    measures = measure or (
        ["MRR@10", "nDCG@10", "R@10", "P@10", "MAP"]
        + (["UDCG@5"] if labels else [])
        + (["contains", "EM", "F1"] if given else [])
    )
    dataset = open_data(data, on_bad_line, split)
    for folder in trained or []:
        _warn_of_training(folder, {query.id for query in dataset.queries})
    result = evaluate(
        dataset,
        runs,
        measures,
        utilities=read_labels(labels).table(utility) if labels else None,
        utility_name=utility,
        answers=given or None,
        relevance=source,
        relevant_from=relevant_from,
        gamma=gamma,
        unjudged=view,
        only_answered=only_answered,
        ties=ties,
        clusters=find_clusters(dataset.queries, cluster_by),
    )
    table = result.table(f"{data}", before=next(iter(runs)) if len(runs) > 1 else None)
    text = render_table(table)
    write_report(out, [table], title=f"Evaluation of {data}", manifest=manifest(command=command_line()))
    write_text(out / "table.txt", text)
    typer.echo(text)
    typer.echo(f"report: {out / 'report.md'}")
