"""``utilitune train retriever``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from utilitune.cli.data import BadLine, open_data
from utilitune.cli.options import OnBadLine, Out, Quiet
from utilitune.cli.out import check_folder
from utilitune.errors import ConfigError

if TYPE_CHECKING:
    from utilitune.rerank import Groups, UtilityReranker

RUNS = (".trec", ".run")


def command(
    source: Annotated[
        Path,
        typer.Argument(
            help="Labels of `utilitune label`, training groups, or a TREC run for --reranker to score.",
            show_default=False,
        ),
    ],
    out: Out,
    data: Annotated[
        Path | None, typer.Option(help="The BEIR folder of labels or run; groups hold their texts.")
    ] = None,
    utility: Annotated[
        list[str] | None, typer.Option("--utility", "-u", help="Which labels to use; all when not given.")
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="Encoder to tune: packaged:NAME, Hugging Face id or folder.")
    ] = "packaged:all-minilm-l6-v2",
    reranker: Annotated[
        Path | None, typer.Option(help="Learn from this reranker's scores instead of the utilities.")
    ] = None,
    depth: Annotated[int, typer.Option(min=2, help="Candidates a question of a run.")] = 20,
    loss: Annotated[str, typer.Option(help="listwise-kl or margin-mse.")] = "listwise-kl",
    rescale: Annotated[
        str,
        typer.Option(
            help="Of utilities within each question: min-max, z-score or rank. A reranker's stay as they are."
        ),
    ] = "z-score",
    in_batch: Annotated[float, typer.Option(min=0, help="Weight of the loss against other questions' passages.")] = 0.1,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 2e-5,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the groups.")] = 3,
    batch_pairs: Annotated[int, typer.Option(min=1, help="(question, passage) pairs a step.")] = 64,
    max_length: Annotated[
        int | None, typer.Option(min=8, help="Tokens a text; the encoder's own window when not given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed.")] = 13,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest complete checkpoint.")] = False,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Train a dense retriever's encoder on utility labels, or on a reranker's scores.

    Example: utilitune train retriever labels.jsonl --data my-data --out my-encoder
    """
    from utilitune.rerank import UtilityReranker
    from utilitune.rerank.student import RetrieverConfig, train_retriever
    from utilitune.rerank.student.teacher import RERANKER

    check_folder(out)
    config = RetrieverConfig(
        loss=loss,
        in_batch=in_batch,
        learning_rate=lr,
        epochs=epochs,
        batch_pairs=batch_pairs,
        max_length=max_length,
        seed=seed,
    )
    config.check()
    teacher = UtilityReranker.load(reranker) if reranker is not None else None
    groups = _groups(source, data, utility, rescale, teacher, depth, on_bad_line)
    scored = groups.label_sets == (RERANKER,)
    report = train_retriever(groups, encoder, out, config, teacher=None if scored else teacher, resume=resume)
    before, after = report.untrained, report.kept
    typer.echo(
        f"{report.groups} groups, {report.pairs} pairs, kept epoch {report.kept_epoch}; {report.measured_on} questions "
        f"among {after.pool} passages, untrained and kept: nDCG@10 {before.ndcg:.3f}, {after.ndcg:.3f}; "
        f"recall@10 {before.recall:.3f}, {after.recall:.3f}"
    )
    typer.echo(f"encoder written to {out}; utilitune index DATA --kind dense --encoder {out} builds its index")


def _groups(
    source: Path,
    data: Path | None,
    utility: list[str] | None,
    rescale: str,
    teacher: UtilityReranker | None,
    depth: int,
    on_bad_line: BadLine,
) -> Groups:
    from utilitune.records import read_labels, read_rows, read_run
    from utilitune.rerank import build_groups, read_groups
    from utilitune.rerank.student import groups_of_run
    from utilitune.scoring import make_utility

    is_run = source.name.removesuffix(".gz").endswith(RUNS)
    if is_run and teacher is None:
        raise ConfigError(f"{source} is a run, which says nothing of worth; give --reranker FOLDER to score it")
    if not is_run and "passages" in next((row for _, row in read_rows(source)), {}):
        return read_groups(source)
    if data is None:
        raise ConfigError(f"{source} holds no texts; give --data FOLDER with its questions and passages")
    dataset = open_data(data, on_bad_line)
    if teacher is not None and is_run:
        return groups_of_run(read_run(source), dataset, teacher, depth=depth)
    names = [make_utility(name).name for name in utility] if utility else None
    return build_groups(read_labels(source), dataset, utilities=names, rescale=rescale)
