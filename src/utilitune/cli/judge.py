"""``utilitune judge answers`` and ``utilitune judge agreement``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data
from utilitune.cli.options import (
    DEFAULT_GENERATOR,
    Data,
    GeneratorSpec,
    OnBadLine,
    Out,
    Quiet,
    Split,
    Store,
    command_line,
)
from utilitune.cli.out import check_folder, check_store
from utilitune.progress import warn

app = typer.Typer(help="Mark answers with a judge, or measure a judge against people.", no_args_is_help=True)


@app.command("answers")
def answers(
    data: Data,
    given: Annotated[Path, typer.Option("--answers", help="Answers of `utilitune answer`.")],
    out: Out,
    generator: GeneratorSpec = DEFAULT_GENERATOR,
    reading: Annotated[str, typer.Option(help="probability (of the three words) or word (written).")] = "probability",
    split: Split = Part.all,
    store: Store = None,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Mark answers CORRECT, INCORRECT or ABSTAINED against the gold answers, and compare with string match.

    Example: utilitune judge answers my-data --answers answers.jsonl --out marks.jsonl
    """
    from collections import Counter
    from dataclasses import asdict

    from utilitune.evaluation.judge import judge_answers, marks_against_match
    from utilitune.evaluation.judge.human_rendering import agreement_text
    from utilitune.generator import load_generator
    from utilitune.records import read_answers, write_rows

    store = check_store(out, store)
    said = read_answers(given)
    queries = open_data(data, on_bad_line, split).queries
    marks = judge_answers(said, queries, load_generator(generator), reading=reading, store=store)
    write_rows(out, map(asdict, marks))
    counts = Counter(mark.mark or mark.status for mark in marks)
    typer.echo(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    if any(mark.mark for mark in marks):
        for measure in ("contains", "EM"):
            found = marks_against_match(marks, said, queries, measure)
            typer.echo(f"judge against {measure}: {agreement_text(found)}")
    typer.echo(f"{len(marks)} marks written to {out}")


@app.command("agreement")
def agreement(
    file: Annotated[
        Path,
        typer.Argument(
            help='JSONL of {"_id", "question", "answer_a", "answer_b", "label": "A" | "B" | "tie"}.', show_default=False
        ),
    ],
    out: Out,
    generator: GeneratorSpec = DEFAULT_GENERATOR,
    reading: Annotated[str, typer.Option(help="probability, letter or json.")] = "probability",
    dimension: Annotated[str, typer.Option(help="The dimension that people judged by.")] = "Overall",
    by: Annotated[str | None, typer.Option(help="Field whose values are also reported one by one.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Only so many rows, drawn at random.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample and of the intervals.")] = 13,
    prompt: Annotated[str | None, typer.Option(help="Prompt file in place of the reading's own.")] = None,
    retries: Annotated[int, typer.Option(min=0, help="How often a reply without a verdict is asked for again.")] = 2,
    quiet: Quiet = False,
) -> None:
    """Measure a judge against human verdicts: agreement, Cohen's kappa, order consistency.

    Example: utilitune judge agreement human.jsonl --generator packaged:gemma3-270m --out judge-report
    """
    import time

    from utilitune.evaluation.judge import judge_pairs, read_human_verdicts, write_judgements
    from utilitune.evaluation.judge.criterion import named_criteria
    from utilitune.evaluation.judge.human import by_group, draw
    from utilitune.evaluation.judge.human_rendering import render_agreement
    from utilitune.evaluation.judge.reading import make_reading
    from utilitune.generator import load_generator
    from utilitune.records import manifest, write_json, write_text

    check_folder(out)
    make_reading(reading)
    named_criteria([dimension])
    rows = draw(read_human_verdicts(file, by), sample, seed)
    judge = load_generator(generator)
    started = time.monotonic()
    judgements = judge_pairs(
        [row.comparison for row in rows],
        judge,
        dimensions=[dimension],
        reading=reading,
        prompt=prompt,
        retries=retries,
        store=out / "judge.sqlite",
    )
    seconds = (time.monotonic() - started) / len(judgements)
    write_judgements(out / "judgements.jsonl", judgements)
    found = by_group(rows, judgements, seed=seed)
    text = render_agreement(found)
    write_text(out / "table.txt", text)
    facts = manifest(command_line(), generator=judge.identity.as_dict(), seconds_a_judgement=seconds)
    write_json(out / "agreement.json", {"groups": {n: each.as_dict() for n, each in found.items()}, "manifest": facts})
    typer.echo(text)
    message = found["(all)"].tally.warning()
    if message is not None:
        warn(message)
    typer.echo(f"{seconds:.2f} s a judgement; judgements: {out / 'judgements.jsonl'}")
