"""Rank correlation of a number with right or wrong, and its intervals over questions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.clusters import Clusters
from utilitune.evaluation.significance import SEED, Values, bootstrap_interval

RESAMPLES = 1000
DIGITS = 12
"""Numbers equal to so many decimals are tied: what differs further on is the order of additions."""
_CELLS_AT_ONCE = 1_000_000
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % bootstrap interval over questions, or over whole conversations.

    Attributes:
        value: The number; ``None`` where it is undefined.
        low: Lower end; ``None`` where no draw had a number.
        high: Upper end.
    """

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Sampled:
    """Correlations of the data (first) and of every draw; NaN where undefined.

    Attributes:
        spearman: Spearman's ρ, shape ``(1 + draws,)``.
        kendall: Kendall's τ-b, the same shape.
    """

    spearman: Floats
    kendall: Floats


class Draws:
    """How often each question (or conversation) was drawn: once in the data, then whole ones with replacement.

    One object serves all metrics and list lengths, so that their differences are paired.

    Args:
        questions: Number of questions, or of conversations where those are drawn, >= 0.
        resamples: Draws, >= 1.
        seed: Seed.

    Raises:
        ConfigError: If ``resamples`` is below 1.
    """

    def __init__(self, questions: int, *, resamples: int = RESAMPLES, seed: int = SEED) -> None:
        if resamples < 1:
            raise ConfigError(f"resamples is {resamples}; expected at least 1 draw")
        drawn = np.random.default_rng(seed).integers(0, max(questions, 1), (resamples, questions))
        times = [np.bincount(row, minlength=questions) for row in drawn]
        # Below two questions a draw says nothing.
        self.times: Floats = np.array([np.ones(questions), *(times if questions > 1 else [])], dtype=np.float64)

    def correlate(self, values: Sequence[float], right: Sequence[bool], owners: Sequence[int]) -> Sampled:
        """Correlate a metric with right or wrong, in the data and in every draw.

        Spearman's ρ is Pearson's r of mid-ranks; Kendall's is ``(C - D) / √((n₀ - n₁)(n₀ - n₂))`` with ``n₀`` pairs of
        rows, ``n₁`` tied in the metric, ``n₂`` tied in the outcome. A row drawn twice ties with itself.

        Args:
            values: The metric, one number a list.
            right: Whether the answer from the list is right.
            owners: Number of the list's question (or conversation), in [0, questions).

        Returns:
            Both correlations, NaN where metric or outcome is constant.

        Raises:
            DataError: If a number is not finite; a list without a number is to be left out.
        """
        rows = len(values)
        if not all(map(math.isfinite, values)):
            raise DataError("a metric is NaN or infinite for some list; leave lists without a number out")
        if not rows:
            nothing = np.full(len(self.times), np.nan)
            return Sampled(nothing, nothing.copy())
        numbers = np.round(np.asarray(values, dtype=np.float64), DIGITS)
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(numbers[order]) > 0])
        flags = np.asarray(right, dtype=np.float64)[order]
        owner = np.asarray(owners, dtype=np.intp)[order]
        found = [_correlated(block[:, owner], flags, starts) for block in self._blocks(rows)]
        return Sampled(np.concatenate([rho for rho, _ in found]), np.concatenate([tau for _, tau in found]))

    def _blocks(self, rows: int) -> Iterator[Floats]:
        most = max(1, _CELLS_AT_ONCE // rows)
        for start in range(0, len(self.times), most):
            yield self.times[start : start + most]


def _correlated(weights: Floats, flags: Floats, starts: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Compute both correlations of each row of weights; values are in ascending order, ``starts`` where each begins."""
    total = np.add.reduceat(weights, starts, axis=1)
    right = np.add.reduceat(weights * flags, starts, axis=1)
    wrong = total - right
    n, rights, wrongs = total.sum(axis=1), right.sum(axis=1), wrong.sum(axis=1)
    rank = np.cumsum(total, axis=1) - total + (total + 1) / 2
    off = rank - ((n + 1) / 2)[:, None]
    covariance = (right * off).sum(axis=1) / n
    spread = np.sqrt((total * off**2).sum(axis=1) / n * (rights / n) * (wrongs / n))
    below = np.cumsum(wrong, axis=1) - wrong
    above = wrongs[:, None] - below - wrong
    concordant = (right * (below - above)).sum(axis=1)
    untied = np.sqrt((n * (n - 1) - (total * (total - 1)).sum(axis=1)) / 2 * rights * wrongs)
    return _ratio(covariance, spread), _ratio(concordant, untied)


def _ratio(above: Floats, below: Floats) -> Floats:
    defined = below > 0
    # Rounding can put a perfect correlation a hair outside.
    return np.where(defined, np.clip(above / np.where(defined, below, 1.0), -1.0, 1.0), np.nan)


def estimate(sampled: Floats) -> Estimate:
    """Return the number of the data with the percentile interval of its draws.

    Args:
        sampled: The number in the data, then in every draw; NaN where undefined.

    Returns:
        Number and interval; draws without a number are left out of it.
    """
    if not np.isfinite(sampled[0]):
        return Estimate(None)
    drawn = sampled[1:][np.isfinite(sampled[1:])]
    if not len(drawn):
        return Estimate(float(sampled[0]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(float(sampled[0]), float(low), float(high))


def numbered(ids: Iterable[str], clusters: Clusters | None) -> dict[str, int]:
    """Number questions by what is drawn as one, for ``Draws``.

    Args:
        ids: The questions, each once.
        clusters: Conversation of each; each for itself when ``None``.

    Returns:
        Question -> number of its conversation or its own, from 0 in the order in which they are met.
    """
    number: dict[str, int] = {}
    return {
        query_id: number.setdefault(query_id if clusters is None else clusters[query_id], len(number))
        for query_id in ids
    }


def by_question(ids: Sequence[str], values: Sequence[float], clusters: Clusters | None) -> Values:
    """Return values as intervals and tests take them: by question where there are clusters, else as they stand.

    Args:
        ids: The questions, each once.
        values: One number a question.
        clusters: Conversation of each question, if any.

    Returns:
        ``{query_id: value}``, or the values.
    """
    return values if clusters is None else dict(zip(ids, values, strict=True))


def share(
    values: Sequence[float], seed: int = SEED, *, ids: Sequence[str] = (), clusters: Clusters | None = None
) -> Estimate:
    """Return the mean of one number a question with its interval.

    Args:
        values: The numbers, such as right or wrong.
        seed: Seed of the draws.
        ids: Their questions; needed with clusters.
        clusters: Conversations, which are drawn whole.

    Returns:
        Mean and interval; nothing without numbers, no interval below two questions (or conversations).
    """
    if not values:
        return Estimate(None)
    told = by_question(ids, [float(value) for value in values], clusters)
    low, high = bootstrap_interval(told, clusters=clusters, seed=seed) or (None, None)
    return Estimate(fmean(values), low, high)
