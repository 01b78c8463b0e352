"""``utilitune win-rate``."""

from __future__ import annotations

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
    command_line,
    named_files,
)
from utilitune.cli.out import check_folder

NAME = "win-rate"


def command(
    data: Data,
    answers: Annotated[
        list[str], typer.Option(help="name=answers.jsonl; two or more. Answers meet by query_id, never by line.")
    ],
    out: Out,
    generator: GeneratorSpec = DEFAULT_GENERATOR,
    reading: Annotated[
        str,
        typer.Option(help="probability (of two letters), letter or json (written; json is the published way)."),
    ] = "probability",
    convention: Annotated[
        str | None,
        typer.Option(
            help="strict (both orders agree), hirag (wins / parsed judgements) or debiased (mean probability of both "
            "orders). Default: debiased for --reading probability, else strict."
        ),
    ] = None,
    dimension: Annotated[
        list[str] | None,
        typer.Option(help="Comprehensiveness, Empowerment, Diversity, Overall; give it again for more. Default: all."),
    ] = None,
    against: Annotated[str | None, typer.Option(help="Compare all with this system alone; else every pair.")] = None,
    prompt: Annotated[str | None, typer.Option(help="Prompt file in place of the reading's own.")] = None,
    retries: Annotated[int, typer.Option(min=0, help="How often a reply without a verdict is asked for again.")] = 2,
    max_lost: Annotated[
        float, typer.Option(min=0, max=1, help="Share of judgements without a verdict above which to stop.")
    ] = 0.05,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many queries.")] = None,
    split: Split = Part.all,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Let a judge compare the answers of two or more systems, each pair in both orders.

    Killed and started again with the same OUT, it goes on; replies without a verdict are asked again, and kept by id in
    OUT/judgements.jsonl.

    Example: utilitune win-rate my-data --answers before=a.jsonl --answers after=b.jsonl --out wins
    """
    from utilitune.evaluation.judge import (
        compare_systems,
        count_judgements,
        judge_pairs,
        render_win_rates,
        write_judgements,
    )
    from utilitune.evaluation.judge.convention import find_convention
    from utilitune.evaluation.judge.criterion import named_criteria
    from utilitune.evaluation.judge.reading import make_reading
    from utilitune.evaluation.judge.win_rate import default_convention
    from utilitune.generator import load_generator
    from utilitune.records import file_hash, manifest, read_answers, write_json, write_text

    check_folder(out)
    make_reading(reading)
    named_criteria(dimension)
    chosen = convention or default_convention(reading)
    find_convention(chosen)
    files = named_files(answers, "--answers")
    systems = {name: read_answers(path) for name, path in files.items()}
    compared = compare_systems(systems, open_data(data, on_bad_line, split).queries[:limit], against=against)
    judge = load_generator(generator)
    judgements = judge_pairs(
        compared.comparisons,
        judge,
        dimensions=dimension,
        reading=reading,
        prompt=prompt,
        retries=retries,
        store=out / "judge.sqlite",
    )
    write_judgements(out / "judgements.jsonl", judgements)
    rates = count_judgements(judgements, chosen, compared)
    text = render_win_rates(rates)
    write_text(out / "table.txt", text)
    facts = manifest(
        command_line(),
        generator=judge.identity.as_dict(),
        reading=reading,
        prompt=prompt,
        answers={name: {"file": str(path), "sha256": file_hash(path)} for name, path in files.items()},
    )
    write_json(out / "win-rate.json", {**rates.as_dict(), "manifest": facts})
    typer.echo(text)
    typer.echo(f"judgements: {out / 'judgements.jsonl'}")
    rates.check(max_lost)
