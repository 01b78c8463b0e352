"""The score below which a passage is better left out: "no passage helps" is an answer too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Threshold:
    """A threshold and what it does on the queries that it was chosen on.

    Attributes:
        score: Smallest logit to keep; ``None`` where keeping all is best.
        k: Passages a query at most.
        value: Mean over queries of the summed worth of what is kept.
        value_of_all: The same without a threshold.
        cross_fitted: ``value`` with each half of the conversations cut by the threshold chosen on the other:
            what to expect of new queries; ``None`` with fewer than 2.
        kept: Passages kept.
        of: Passages among the first k.
        abstained: Queries with nothing kept.
        queries: Number of queries.
    """

    score: float | None
    k: int
    value: float
    value_of_all: float
    cross_fitted: float | None
    kept: int
    of: int
    abstained: int
    queries: int


def choose_threshold(
    scores: Sequence[Sequence[float]],
    worths: Sequence[Sequence[float]],
    k: int,
    conversations: Sequence[str] | None = None,
) -> Threshold:
    """Choose the threshold of most worth: keep of the first k passages those with ``score >= threshold``.

    The worth of a passage is what showing it gains (positive) or costs (negative), so that a query whose
    passages all cost gains by abstaining. Between two scores the threshold is their midpoint; of thresholds of
    equal worth the lowest one is taken.

    Args:
        scores: One list a query, one finite logit a candidate.
        worths: Same shape, such as UDCG's summands.
        k: Passages a query at most, >= 1.
        conversations: One a query; ``None`` where each is its own.

    Returns:
        The threshold and its account.
    """
    tops = [_top(row, worth, k) for row, worth in zip(scores, worths, strict=True)]
    score = _best(tops)
    kept = [[worth for value, worth in top if score is None or value >= score] for top in tops]
    crossed = None
    units = list(dict.fromkeys(conversations or map(str, range(len(tops)))))
    if len(units) > 1:
        first = set(units[0::2])
        halves: tuple[list[_Top], list[_Top]] = ([], [])
        for unit, top in zip(conversations or units, tops, strict=True):
            halves[unit in first].append(top)
        worth = sum(_value(half, _best(other)) for half, other in (halves, halves[::-1]))
        crossed = worth / len(tops)
    return Threshold(
        score=score,
        k=k,
        value=_value(tops, score) / len(tops),
        value_of_all=_value(tops, None) / len(tops),
        cross_fitted=crossed,
        kept=sum(map(len, kept)),
        of=sum(map(len, tops)),
        abstained=sum(not row for row in kept),
        queries=len(tops),
    )


_Top = list[tuple[float, float]]  # (score, worth) of the first k of a query


def _top(scores: Sequence[float], worths: Sequence[float], k: int) -> _Top:
    return sorted(zip(scores, worths, strict=True), key=lambda pair: -pair[0])[:k]


def _value(tops: Sequence[_Top], threshold: float | None) -> float:
    return math.fsum(worth for top in tops for score, worth in top if threshold is None or score >= threshold)


def _best(tops: Sequence[_Top]) -> float | None:
    pairs = sorted((pair for top in tops for pair in top), key=lambda pair: -pair[0])
    if not pairs:
        return None
    scores = np.asarray([score for score, _ in pairs])
    gained = np.concatenate([[0.0], np.cumsum([worth for _, worth in pairs])])
    # Equal scores are kept or dropped together: a cut is possible at 0, at the end, and where the score falls.
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(scores) < 0) + 1, [len(scores)]])
    most = gained[cuts].max()
    cut = int(cuts[gained[cuts] >= most - 1e-12].max())
    if cut == len(scores):
        return None
    if cut == 0:
        return float(np.nextafter(scores[0], math.inf))
    return float((scores[cut - 1] + scores[cut]) / 2)
