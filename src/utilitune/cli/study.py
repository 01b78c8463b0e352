"""``utilitune study signal`` and ``utilitune study correlation``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data, open_index
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
    RelevanceSource,
    Split,
    Store,
    command_line,
    named_files,
)
from utilitune.cli.out import check_file, check_folder
from utilitune.errors import ConfigError

if TYPE_CHECKING:
    from utilitune.evaluation.study.correlation.found import System
    from utilitune.records import Dataset

RelevantFrom = Annotated[
    float | None,
    typer.Option(help="Grade from which a passage is relevant; 1 unless given, needed for fractional grades."),
]
AnswerMeasure = Annotated[str, typer.Option(help="When an answer is right: contains or EM.")]
AnswerPrompt = Annotated[
    str, typer.Option(help="Prompt of the answers, by name or file; answer-abstain gives leave to abstain.")
]
Limit = Annotated[
    int | None, typer.Option(min=1, help="Only so many questions, drawn by the seed; a larger limit extends it.")
]
Seed = Annotated[int, typer.Option(help="Seed of all draws and of the intervals.")]

app = typer.Typer(
    help="Studies: how good a utility is as a label, and whether a metric predicts the answer.", no_args_is_help=True
)


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
    answer_measure: AnswerMeasure = "contains",
    answer_prompt: AnswerPrompt = "answer",
    relevant_from: RelevantFrom = None,
    split: Split = Part.all,
    limit: Limit = None,
    seed: Seed = 13,
    store: Store = None,
    batch_tokens: BatchTokens = BATCH_TOKENS,
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
    from utilitune.evaluation.study.signal import DEFAULT_UTILITIES
    from utilitune.evaluation.study.signal_table import signal_text
    from utilitune.generator import load_generator
    from utilitune.scoring import make_utility

    kept = _checked(out, store, answer_measure, answer_prompt)
    if distractors + random < 1:
        raise ConfigError("--distractors 0 --random 0: nothing for the gold passage to beat; give at least one")
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


@app.command("correlation")
def correlation(
    data: Data,
    out: Out,
    generator: GeneratorSpec = DEFAULT_GENERATOR,
    retriever: Annotated[
        list[str] | None,
        typer.Option(
            "--retriever",
            "--retrievers",
            "-r",
            help="bm25, dense, or NAME=FILE: an index folder or a TREC run; give it again for more. Default: bm25.",
        ),
    ] = None,
    k: Annotated[
        list[str] | None, typer.Option("-k", help="Passages in the prompt: 1..10 (default), 5, or 1,3,5.")
    ] = None,
    utility: Annotated[
        list[str] | None,
        typer.Option(
            "--utility", "--utilities", "-u", help="Further utility of a passage, its mean over the list a metric."
        ),
    ] = None,
    set_utility: Annotated[
        list[str] | None,
        typer.Option(
            "--set-utility", help="Utility of the whole list, such as sper (ΔSePer: ten sampled answers a list)."
        ),
    ] = None,
    u: Annotated[str, typer.Option(help="UDCG's utility of a passage, in [0, 1].")] = "abstention",
    gamma: Annotated[float, typer.Option(min=0, help="UDCG's weight of distraction.")] = 1 / 3,
    relevance: RelevanceSource = "judged",
    relevant_from: RelevantFrom = None,
    answer_measure: AnswerMeasure = "contains",
    answer_prompt: AnswerPrompt = "answer-abstain",
    position: Annotated[int, typer.Option(min=0, help="Passages a list of the position study; 0: without.")] = 10,
    ideal: Annotated[int, typer.Option(min=0, help="Passages of an ideal ranking; 0: without.")] = 5,
    answers: Annotated[
        Path | None,
        typer.Option(help="Answers of this generator to this prompt, such as an earlier OUT/answers.jsonl: not asked."),
    ] = None,
    theta: Annotated[
        list[Path] | None,
        typer.Option(help="theta-K.json of a study of other data: UDCGθ as fitted there, a row; one a list length."),
    ] = None,
    split: Split = Part.all,
    limit: Limit = None,
    seed: Seed = 13,
    store: Store = None,
    batch_tokens: BatchTokens = BATCH_TOKENS,
    max_failed: MaxFailed = MAX_FAILED,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Measure whether retrieval metrics predict the answer: rank correlations at every k, positions, ideal rankings.

    Writes correlation.json, table.txt, table.md, lists.csv, answers.jsonl, labels.jsonl and figures. The store defaults
    to OUT/responses.sqlite; killed and started again, it goes on.

    Example: utilitune study correlation my-data -r bm25 -k 1..10 --limit 200 --out correlation
    """
    from utilitune.evaluation import study_correlation, write_correlation
    from utilitune.evaluation.relevance import check_relevance, read_relevance
    from utilitune.evaluation.study.correlation.table import correlation_text
    from utilitune.evaluation.udcg_theta import UdcgTheta
    from utilitune.generator import load_generator
    from utilitune.records import read_answers
    from utilitune.scoring import make_utility

    kept = _checked(out, store, answer_measure, answer_prompt)
    lengths = _lengths(k or ["1..10"])
    if position == 1:
        raise ConfigError(
            "--position 1: found one passage, expected at least 2 to move one through, or 0 for no such part"
        )
    source = read_relevance(relevance)
    check_relevance(source, relevant_from)
    utilities, wholes = ([make_utility(name) for name in names or []] for names in (utility, set_utility))
    of_u = make_utility(u)
    given = read_answers(answers) if answers is not None else []
    fits = [UdcgTheta.load(path) for path in theta or []]
    dataset = open_data(data, on_bad_line, split)
    systems = _systems(retriever or ["bm25"], dataset)
    study = study_correlation(
        dataset,
        load_generator(generator, batch_tokens=batch_tokens),
        systems,
        lengths,
        u=of_u,
        utilities=utilities,
        set_utilities=wholes,
        relevance=source,
        relevant_from=relevant_from,
        gamma=gamma,
        answer_measure=answer_measure,
        answer_prompt=answer_prompt,
        position=position or None,
        ideal=ideal or None,
        answers=given,
        theta=fits,
        limit=limit,
        seed=seed,
        store=kept,
        max_failed=max_failed,
        command=command_line(),
    )
    paths = write_correlation(out, study)
    typer.echo(correlation_text(study))
    typer.echo(f"table: {paths['table.md']}")


def _checked(out: Path, store: Path | None, answer_measure: str, answer_prompt: str) -> Path:
    """Look at what both studies need, before any work; return the store."""
    from utilitune.evaluation.study.plots import check_plots
    from utilitune.evaluation.study.signal import answer_judge

    check_folder(out)
    kept = store or out / "responses.sqlite"
    check_file(kept, "--store")
    check_plots()
    answer_judge(answer_measure, answer_prompt)
    return kept


def _lengths(values: list[str]) -> list[int]:
    """Read list lengths: ``5``, ``1..10``, ``1,3,5``."""
    lengths: set[int] = set()
    for part in ",".join(values).split(","):
        matched = re.fullmatch(r"\s*(\d+)(?:\.\.(\d+))?\s*", part)
        first, last = (int(matched[1]), int(matched[2] or matched[1])) if matched else (0, 0)
        if not 1 <= first <= last:
            raise ConfigError(f"-k: found {part!r}, expected list lengths of at least 1, such as 5, 1..10 or 1,3,5")
        lengths.update(range(first, last + 1))
    return sorted(lengths)


def _systems(specs: list[str], dataset: Dataset) -> dict[str, System]:
    """Make retrievers by name, load index folders, read TREC runs."""
    from utilitune.records import read_run
    from utilitune.retrieval import Bm25Retriever, DenseRetriever

    built: dict[str, Callable[[], System]] = {
        "bm25": lambda: Bm25Retriever.build(dataset.corpus),
        "dense": lambda: DenseRetriever.build(dataset.corpus),
    }
    paths = named_files([spec for spec in specs if spec not in built], "--retriever")
    lost = [str(path) for path in paths.values() if not path.exists()]
    if lost:
        raise ConfigError(
            f"--retriever: found no {', '.join(lost)}; expected {' or '.join(built)}, or NAME=FILE with an index "
            "folder or a TREC run"
        )
    taken = [name for name in paths if name in built and name in specs]
    if taken:
        raise ConfigError(f"--retriever: found the name {taken[0]!r} twice; write other-name={paths[taken[0]]}")
    found: dict[str, System] = {name: built[name]() for name in dict.fromkeys(specs) if name in built}
    for name, path in paths.items():
        found[name] = open_index(path, dataset) if path.is_dir() else read_run(path)
    return found
