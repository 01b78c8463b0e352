"""``utilitune answer``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data
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
from utilitune.cli.out import check_store

NAME = "answer"


def command(
    data: Data,
    run: Annotated[Path, typer.Option(help="TREC run whose top k go into the prompt.")],
    out: Out,
    generator: GeneratorSpec = DEFAULT_GENERATOR,
    k: Annotated[int, typer.Option("-k", min=0, help="Passages in the prompt; 0 is closed book.")] = 3,
    prompt: Annotated[
        str, typer.Option(help="Prompt, by name or file; answer-abstain gives leave to abstain.")
    ] = "answer",
    split: Split = Part.all,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many queries of the run.")] = None,
    absent: Annotated[
        bool, typer.Option("--absent", help="Ask questions without a line in the run too, without passages.")
    ] = False,
    store: Store = None,
    batch_tokens: BatchTokens = BATCH_TOKENS,
    max_failed: MaxFailed = MAX_FAILED,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Let the generator answer with the top k passages; with gold answers in the data, print the accuracy.

    Example: utilitune answer my-data --run bm25.trec --split test -k 3 --out answers.jsonl
    """
    from utilitune.evaluation import accuracy, answer_questions
    from utilitune.generator import load_generator, load_prompt
    from utilitune.records import file_hash, manifest, read_run, write_answers, write_json
    from utilitune.records.labels import manifest_path

    store = check_store(out, store)
    dataset = open_data(data, on_bad_line, split)
    rankings = read_run(run)
    queries = [query for query in dataset.queries if absent or query.id in rankings][:limit]
    reader = load_generator(generator, batch_tokens=batch_tokens)
    answers = answer_questions(
        queries,
        rankings,
        dataset.passages(),
        reader,
        k=k,
        prompt=prompt,
        store=store,
        max_failed=max_failed,
    )
    write_answers(out, answers)
    for measure in ("contains", "EM", "F1"):
        scores = accuracy(answers, queries, measure)
        if scores:
            typer.echo(f"{measure} {sum(scores.values()) / len(scores):.3f} (n {len(scores)})")
    counts = {"abstained": sum(a.abstained for a in answers), "cut": sum(a.cut for a in answers)}
    counts["refused"] = len(queries) - len(answers)
    made = manifest(
        command_line(),
        generator=reader.identity.as_dict(),
        prompt={"name": prompt, "sha256": load_prompt(prompt).hash},
        k=k,
        run_sha256=file_hash(run),
        answers_sha256=file_hash(out),
        counts={"questions": len(queries), "answers": len(answers), **counts},
    )
    write_json(manifest_path(out), {"manifest": made})
    shown = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    typer.echo(f"{len(answers)} answers written to {out}" + (f" ({shown})" if shown else ""))
