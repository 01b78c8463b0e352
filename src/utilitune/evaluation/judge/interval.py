"""Intervals of shares: Wilson's for independent yes-or-no outcomes, the bootstrap over questions for the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from utilitune.errors import ConfigError

RESAMPLES = 10_000
SEED = 13
Interval = tuple[float, float]


def wilson(count: int, n: int, confidence: float = 0.95) -> Interval | None:
    """Return Wilson's score interval of a share.

    Args:
        count: Outcomes that count, 0 to ``n``.
        n: Independent outcomes.
        confidence: Coverage, in (0, 1).

    Returns:
        ``(low, high)`` within [0, 1], or ``None`` without outcomes.

    Raises:
        ConfigError: If ``confidence`` is not in (0, 1).
    """
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence is {confidence}; expected a share between 0 and 1")
    if n == 0:
        return None
    from scipy.stats import binomtest  # type: ignore[import-untyped,unused-ignore]

    found = binomtest(count, n).proportion_ci(confidence, method="wilson")
    return float(found.low), float(found.high)


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided exact p of as uneven a split if both sides were equally likely; 1 without outcomes."""
    from scipy.stats import binomtest  # type: ignore[import-untyped,unused-ignore]

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def ratio_interval(
    counts: Sequence[float],
    units: Sequence[float],
    *,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = SEED,
) -> Interval | None:
    """Return the percentile bootstrap interval of ``sum(counts) / sum(units)``, questions drawn whole.

    Args:
        counts: What counts, a question.
        units: Of how many, a question: 1 for a pair, up to 2 for its judgements.
        resamples: Draws, >= 1.
        confidence: Coverage, in (0, 1).
        seed: Seed of the draws.

    Returns:
        ``(low, high)``, or ``None`` below two questions.

    Raises:
        ConfigError: If ``confidence`` is not in (0, 1), or ``resamples`` below 1.
    """
    if not 0 < confidence < 1 or resamples < 1:
        raise ConfigError(f"confidence {confidence} must lie in (0, 1) and resamples {resamples} must be at least 1")
    above, below = np.asarray(counts, dtype=float), np.asarray(units, dtype=float)
    if len(above) < 2:
        return None
    generator = np.random.default_rng(seed)
    ratios = np.empty(resamples)
    # A draw in which no question has a unit is no draw; every question here has one.
    step = max(1, 4_000_000 // len(above))
    for start in range(0, resamples, step):
        drawn = generator.integers(0, len(above), (min(step, resamples - start), len(above)))
        ratios[start : start + len(drawn)] = above[drawn].sum(1) / below[drawn].sum(1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return float(low), float(high)
