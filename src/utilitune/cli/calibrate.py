"""``utilitune calibrate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from utilitune.cli.data import BadLine, Part, open_data, part_of
from utilitune.cli.options import Data, OnBadLine, Quiet, Split
from utilitune.cli.rerank import check_reranker
from utilitune.progress import warn

if TYPE_CHECKING:
    from utilitune.rerank import Calibration

NAME = "calibrate"


def command(
    data: Data,
    labels: Annotated[Path, typer.Option(help="Labels of `utilitune label`; training conversations are left out.")],
    reranker: Annotated[Path, typer.Option(help="Folder of a trained reranker; calibration.json is written into it.")],
    utility: Annotated[
        list[str] | None, typer.Option("--utility", "-u", help="Which labels to use; all when not given.")
    ] = None,
    helps_above: Annotated[
        float | None, typer.Option(help="Utility above which a passage helps; needed unless it lies within [0, 1].")
    ] = None,
    relevance: Annotated[
        str | None, typer.Option(help="Sign the utility: gold, answer, or a utility that stands in for relevance.")
    ] = None,
    gamma: Annotated[float, typer.Option(min=0, max=1, help="Weight of distraction.")] = 1 / 3,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages that the generator is shown at most.")] = 5,
    split: Split = Part.all,
    on_bad_line: OnBadLine = BadLine.error,
    quiet: Quiet = False,
) -> None:
    """Fit a reranker's probabilities and the score to abstain at, on labels it did not learn from.

    Training questions are left out, and with them the other turns of their conversations, where the data has any.

    Example: utilitune calibrate my-data --labels heldout.jsonl --reranker my-reranker --helps-above 0
    """
    from utilitune.records import Labels, read_labels
    from utilitune.rerank import Relevance, UtilityReranker, build_groups, calibrate
    from utilitune.rerank.conversations import find_conversations
    from utilitune.scoring import make_utility

    check_reranker(reranker)
    # All of it: a conversation may have turns in both parts.
    dataset = open_data(data, on_bad_line)
    found = read_labels(labels)
    asked = {query.id for query in part_of(dataset, data, split).queries}
    part = found if split is Part.all else Labels([row for row in found if row.query_id in asked], found.manifest)
    groups = build_groups(
        part,
        dataset,
        utilities=[make_utility(name).name for name in utility] if utility else None,
        rescale="none",
        relevance=Relevance(relevance, gamma=gamma) if relevance else None,
        near_duplicate=None,
        keep_flat=True,
    )
    made = calibrate(
        UtilityReranker.load(reranker),
        groups,
        helps_above=helps_above,
        k=k,
        gamma=gamma,
        trained_on=frozenset(_learnt_from(reranker)),
        conversations=find_conversations(dataset.queries),
    )
    made.save(reranker)
    for line in _lines(made):
        typer.echo(line)
    typer.echo(f"calibration written to {reranker / 'calibration.json'}")


def _learnt_from(reranker: Path) -> set[str]:
    """Return the training queries; those that chose the epoch (one of a few) may calibrate."""
    try:
        return set(json.loads((reranker / "training.json").read_text(encoding="utf-8"))["queries"]["train"])
    except (OSError, ValueError, KeyError, TypeError):
        warn(f"{reranker} does not say which queries it learnt from; see that none is among these labels")
        return set()


def _lines(made: Calibration) -> list[str]:
    """Say what was fitted, and whether it is worth anything."""
    cut = made.threshold
    left_out = ", ".join(f"{kind} {count}" for kind, count in made.left_out.items() if count)
    lines = [
        f"{made.pairs} pairs of {made.queries} held-out queries" + (f" (left out: {left_out})" if left_out else ""),
        f"probability = sigmoid((logit - {made.shift:.4g}) / {made.temperature:.4g}); cross-entropy "
        f"{made.cross_entropy:.3f}, raw {made.cross_entropy_raw:.3f}, base rate {made.base_rate:.3f} alone "
        f"{made.cross_entropy_base:.3f}",
    ]
    if cut.score is None:
        return [
            *lines,
            f"threshold: none, keeping all of the first {cut.k} is worth most, {cut.value:+.3f} a query",
        ]
    expected = "" if cut.cross_fitted is None else f", {cut.cross_fitted:+.3f} cross-fitted"
    return [
        *lines,
        f"threshold: logit {cut.score:.4g}, keeps {cut.kept} of {cut.of} passages, {cut.abstained} of {cut.queries} "
        f"queries keep none; worth a query {cut.value_of_all:+.3f} ▶ {cut.value:+.3f}{expected}",
    ]
