"""How well a number tells two kinds apart: AUROC with an interval over questions, and Kendall's τ-b."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from utilitune.evaluation.significance import SEED

RESAMPLES = 1000
_Floats = NDArray[np.float64]
Flagged = Sequence[tuple[float, bool]]
"""One question: number and kind of every passage."""


@dataclass(frozen=True)
class Separation:
    """How well a number tells positive from negative rows.

    Attributes:
        positives: Positive rows.
        negatives: Negative rows.
        auroc: Chance that a positive row has the larger number, over all rows of all questions, ties ½; ``None``
            without both kinds.
        low: Lower end of the 95 % bootstrap interval, whole questions drawn; ``None`` below two questions.
        high: Upper end.
        within: Mean over questions of the AUROC within the question; ``None`` where no question has both kinds.
        within_questions: Questions that have both kinds.
        tau: Kendall's τ-b of number and kind over all rows, in [-1, 1]; ``None`` where either is constant.
    """

    positives: int
    negatives: int
    auroc: float | None
    low: float | None
    high: float | None
    within: float | None
    within_questions: int
    tau: float | None


def separation(questions: Sequence[Flagged], *, resamples: int = RESAMPLES, seed: int = SEED) -> Separation:
    """Compute how well the numbers separate.

    Args:
        questions: Rows, question by question.
        resamples: Draws of the bootstrap, >= 1.
        seed: Seed of the draws.

    Returns:
        AUROC over all rows and within questions, and τ-b.
    """
    groups = [group for group in questions if group]
    flags = np.array([flag for group in groups for _, flag in group], dtype=np.float64)
    positives = int(flags.sum())
    if not 0 < positives < len(flags):
        return Separation(positives, len(flags) - positives, None, None, None, None, 0, None)
    numbers = np.array([number for group in groups for number, _ in group], dtype=np.float64)
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    _, value = np.unique(numbers, return_inverse=True)
    low, high = _interval(value, flags, owner, len(groups), resamples, seed)
    ones = np.ones(len(flags))
    each = [_auroc(value[owner == index], flags[owner == index], ones[owner == index]) for index in range(len(groups))]
    within = [auroc for auroc in each if auroc is not None]
    return Separation(
        positives=positives,
        negatives=len(flags) - positives,
        auroc=_auroc(value, flags, ones),
        low=low,
        high=high,
        within=fmean(within) if within else None,
        within_questions=len(within),
        tau=_tau(numbers, flags),
    )


def _auroc(value: NDArray[np.intp], flags: _Floats, weights: _Floats) -> float | None:
    """Count pairs by distinct value: below it, and half of those at it. Weights repeat rows."""
    positive = np.bincount(value, weights * flags)
    negative = np.bincount(value, weights * (1 - flags))
    pairs = positive.sum() * negative.sum()
    if not pairs:
        return None
    return float((positive * (np.cumsum(negative) - negative / 2)).sum() / pairs)


def _interval(
    value: NDArray[np.intp], flags: _Floats, owner: NDArray[np.intp], groups: int, resamples: int, seed: int
) -> tuple[float | None, float | None]:
    if groups < 2:
        return None, None
    generator = np.random.default_rng(seed)
    drawn = []
    for _ in range(resamples):
        times = np.bincount(generator.integers(0, groups, groups), minlength=groups).astype(np.float64)
        auroc = _auroc(value, flags, times[owner])
        # A draw with one kind alone has no AUROC.
        if auroc is not None:
            drawn.append(auroc)
    if not drawn:
        return None, None
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def _tau(numbers: _Floats, flags: _Floats) -> float | None:
    from scipy.stats import kendalltau  # type: ignore[import-untyped,unused-ignore]

    tau = float(kendalltau(numbers, flags).statistic)
    return tau if math.isfinite(tau) else None
