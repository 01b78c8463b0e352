"""``utilitune study signal``."""

from __future__ import annotations

from typing import Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data
from utilitune.cli.options import (
    DEFAULT_GENERATOR,
    MAX_FAILED,
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
from utilitune.cli.out import check_file, check_folder
from utilitune.errors import ConfigError

app = typer.Typer(help="Studies: how good a utility is as a label.", no_args_is_help=True)


@app.callback()
def _studies() -> None:
    """Keep ``signal`` a verb of its own while it is the only one."""


@app.command("signal")
def signal(
    data: Data,
    out: Out,
    generator: GeneratorSpec = DEFAULT_GENERATOR,
    utility: Annotated[
        list[str] | None,
        typer.Option(
            "--utility",
            "--utilities",
            "-u",
            help="Utility to study; give it again for more, the first is what others are compared with. Default: "
            "grogu:mean-entropy, question-gain, joint-gain, information-gain, entropy-drop and two more of grogu.",
        ),
    ] = None,
    distractors: Annotated[int, typer.Option(min=0, help="Hard BM25 distractors a question.")] = 4,
    random: Annotated[int, typer.Option(min=0, help="Random passages a question.")] = 1,
    allow_answers: Annotated[
        bool,
        typer.Option("--allow-answers", help="Keep distractors whose text contains a gold answer; else they go."),
    ] = False,
    answer_measure: Annotated[str, typer.Option(help="When an answer is right: contains or EM.")] = "contains",
    answer_prompt: Annotated[
        str, typer.Option(help="Prompt that the answers are given to, by name or file.")
    ] = "answer",
    relevant_from: Annotated[
        float | None,
        typer.Option(help="Grade from which a passage is gold; 1 unless given, needed for fractional grades."),
    ] = None,
    split: Split = Part.all,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only so many questions, drawn by the seed; a larger limit extends it.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw, the random passages and the intervals.")] = 13,
    store: Store = None,
    batch_tokens: Annotated[int, typer.Option(min=64, help="Tokens in one forward pass.")] = 8192,
    max_failed: MaxFailed = MAX_FAILED,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Measure utilities as labels: does the gold passage beat hard and random ones, do right answers go with it?

    Writes signal.json, table.md, pairs.csv, signal.svg and values.svg. The store defaults to OUT/responses.sqlite;
    killed and started again, it goes on.

    Example: utilitune study signal my-data -u grogu:mean-entropy -u question-gain --limit 100 --out signal
    """
    from utilitune.evaluation import study_signal, write_signal
    from utilitune.evaluation.study.plots import check_plots
    from utilitune.evaluation.study.signal import DEFAULT_UTILITIES, answer_judge
    from utilitune.evaluation.study.signal_table import signal_text
    from utilitune.generator import load_generator
    from utilitune.scoring import make_utility

    check_folder(out)
    kept = store or out / "responses.sqlite"
    check_file(kept, "--store")
    if distractors + random < 1:
        raise ConfigError("--distractors 0 --random 0: nothing for the gold passage to beat; give at least one")
    check_plots()
    answer_judge(answer_measure, answer_prompt)
    utilities = [make_utility(name) for name in utility or DEFAULT_UTILITIES]
    dataset = open_data(data, on_bad_line, split)
    study = study_signal(
        dataset,
        load_generator(generator, batch_tokens=batch_tokens),
        utilities,
        distractors=distractors,
        random=random,
        limit=limit,
        seed=seed,
        store=kept,
        allow_answers=allow_answers,
        answer_measure=answer_measure,
        answer_prompt=answer_prompt,
        relevant_from=relevant_from,
        max_failed=max_failed,
        command=command_line(),
    )
    paths = write_signal(out, study)
    typer.echo(signal_text(study))
    typer.echo(f"table: {paths['table.md']}")
