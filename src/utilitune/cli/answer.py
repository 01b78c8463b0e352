"""``utilitune answer``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.options import DEFAULT_GENERATOR, Data, GeneratorSpec, Out, Quiet, Store

NAME = "answer"


def command(
    data: Data,
    run: Annotated[Path, typer.Option(help="TREC run whose top k go into the prompt.")],
    out: Out,
    generator: GeneratorSpec = DEFAULT_GENERATOR,
    k: Annotated[int, typer.Option("-k", min=0, help="Passages in the prompt; 0 is closed book.")] = 3,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many queries of the run.")] = None,
    store: Store = None,
    quiet: Quiet = False,
) -> None:
    """Let the generator answer with the top k passages; with gold answers in the data, print the accuracy.

    Example: utilitune answer my-data --run bm25.trec -k 3 --out answers.jsonl
    """
    from utilitune.evaluation import accuracy, answer_questions
    from utilitune.generator import load_generator
    from utilitune.records import load_dataset, read_run, write_answers

    dataset = load_dataset(data)
    rankings = read_run(run)
    queries = [query for query in dataset.queries if query.id in rankings][:limit]
    answers = answer_questions(
        queries,
        rankings,
        dataset.passages(),
        load_generator(generator),
        k=k,
        store=store or out.with_suffix(".sqlite"),
    )
    write_answers(out, answers)
    for measure in ("contains", "EM", "F1"):
        scores = accuracy(answers, queries, measure)
        if scores:
            typer.echo(f"{measure} {sum(scores.values()) / len(scores):.3f} (n {len(scores)})")
    typer.echo(f"{len(answers)} answers written to {out}")
