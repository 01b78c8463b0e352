"""What a model is worth on held-out groups: nDCG@10 and the first five's utility, and the spread of its scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from utilitune.rerank.groups import Group
from utilitune.rerank.rescale import Vector, rescale


@dataclass(frozen=True)
class DevMeasure:
    """Means over queries.

    Attributes:
        ndcg: nDCG@10 with per-query min-max utilities as gains, in [0, 1].
        top5: Mean utility of the first 5 candidates, in the utility's unit; with signed utilities UDCG@5
            before its sigmoid.
        spread: Standard deviation of the scores within a query, in logits.
        non_finite: Scores that were not finite (ranked last, left out of the spread).
        queries: Number of queries.
    """

    ndcg: float
    top5: float
    spread: float
    non_finite: int
    queries: int

    def worth(self, by: str) -> float:
        """Return the number that epochs are compared by.

        Args:
            by: A name in ``CHOOSE_BY``.

        Returns:
            Higher is better.
        """
        return CHOOSE_BY[by](self)

    def as_dict(self) -> dict[str, float | int]:
        """Return the fields as JSON-ready values."""
        return asdict(self)


CHOOSE_BY: dict[str, Callable[[DevMeasure], float]] = {
    "nDCG@10": lambda dev: dev.ndcg,
    "utility@5": lambda dev: dev.top5,
}
"""What the best epoch can be chosen by."""


def utility_ndcg(scores: Sequence[float], utilities: Sequence[float], k: int = 10) -> float:
    """Return nDCG@k with graded, linear gains: the utilities min-max scaled within the query.

    ``DCG = sum_r gain_r / log2(r + 1)`` over the first k ranks, divided by that of the best order. Tied
    scores share the mean gain of their ranks (the expectation over their orders, McSherry & Najork 2008), so
    that a model with one constant score gets what chance gets, whatever the order of the candidates. Not
    finite means last.

    Args:
        scores: One a candidate; higher is better.
        utilities: One finite number a candidate, not all equal.
        k: Depth, >= 1.

    Returns:
        A number in [0, 1].
    """
    gains = np.asarray(rescale(utilities, "min-max"))
    discounts = np.where(np.arange(len(gains)) < k, 1 / np.log2(np.arange(len(gains)) + 2), 0.0)
    best = float((np.sort(gains)[::-1] * discounts).sum())
    return float((_expected_by_rank(scores, gains) * discounts).sum()) / best


def top_utility(scores: Sequence[float], utilities: Sequence[float], k: int = 5) -> float:
    """Return the mean utility of the first k candidates; tied scores and not finite ones as in ``utility_ndcg``.

    With signed utilities (u where relevant, -gamma u where not) this is UDCG@k before its sigmoid
    (arXiv 2510.21440).

    Args:
        scores: One a candidate; higher is better.
        utilities: One finite number a candidate.
        k: Depth, >= 1; where there are fewer candidates, all of them.

    Returns:
        A number in the utility's unit.
    """
    return float(_expected_by_rank(scores, np.asarray(utilities, np.float64))[:k].mean())


def _expected_by_rank(scores: Sequence[float], gains: Vector) -> Vector:
    """Return the gain expected at each rank, over the orders of tied scores."""
    usable = np.asarray([score if math.isfinite(score) else -math.inf for score in scores])
    order = np.argsort(-usable, kind="stable")
    ranked, expected = usable[order], gains[order].copy()
    start = 0
    while start < len(ranked):
        stop = start + int((ranked[start:] == ranked[start]).sum())
        expected[start:stop] = expected[start:stop].mean()
        start = stop
    return expected


def measure(groups: Sequence[Group], scores: Sequence[Sequence[float]]) -> DevMeasure:
    """Measure scores of several groups.

    Args:
        groups: At least one.
        scores: One list a group, one score a candidate.

    Returns:
        The means.
    """
    finite = [[score for score in row if math.isfinite(score)] for row in scores]
    return DevMeasure(
        ndcg=float(np.mean([utility_ndcg(row, group.utilities) for group, row in zip(groups, scores, strict=True)])),
        top5=float(np.mean([top_utility(row, group.utilities) for group, row in zip(groups, scores, strict=True)])),
        spread=float(np.mean([np.std(row) if row else 0.0 for row in finite])),
        non_finite=sum(len(row) for row in scores) - sum(len(row) for row in finite),
        queries=len(groups),
    )
