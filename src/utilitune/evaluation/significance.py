"""Paired tests and intervals over queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from utilitune.errors import ConfigError, DataError

RESAMPLES = 10_000
SEED = 13
_CELLS_AT_ONCE = 2_000_000
_EXACT_UP_TO = 13

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Significance:
    """Comparison of two systems on one measure over the same queries.

    Attributes:
        n: Queries.
        before: Mean of the first system, ``None`` without queries.
        after: Mean of the second.
        difference: ``after - before``.
        low: Lower end of the paired bootstrap interval of the difference, ``None`` below two queries.
        high: Upper end.
        p: Two-sided p of the paired randomisation test, in (0, 1].
        wins: Queries where the second system is better.
        losses: Queries where it is worse.
        ties: Queries where both are equal.
        p_holm: ``p`` corrected over a family of comparisons; ``None`` until a family is known.
    """

    n: int
    before: float | None
    after: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float
    wins: int
    losses: int
    ties: int
    p_holm: float | None = None


def significance(
    a: Mapping[str, float] | Sequence[float],
    b: Mapping[str, float] | Sequence[float],
    *,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = SEED,
) -> Significance:
    """Compare ``b`` (after) with ``a`` (before), query by query.

    Args:
        a: Values of the first system: ``{query_id: value}``, or a sequence in a fixed order of the queries.
        b: Values of the second system for the same queries.
        resamples: Draws of the test and of the interval, each.
        confidence: Coverage of the interval, in (0, 1).
        seed: Seed of both.

    Returns:
        Means, difference, percentile interval and p.

    Raises:
        DataError: If the two do not cover the same queries, or a value is not finite.
    """
    first, second = _paired(a, b)
    difference = second - first
    n = len(difference)
    low, high = bootstrap_interval(difference, resamples=resamples, confidence=confidence, seed=seed) or (
        None,
        None,
    )
    return Significance(
        n=n,
        before=float(first.mean()) if n else None,
        after=float(second.mean()) if n else None,
        difference=float(difference.mean()) if n else None,
        low=low,
        high=high,
        p=randomisation_p(difference, resamples=resamples, seed=seed),
        wins=int((difference > 0).sum()),
        losses=int((difference < 0).sum()),
        ties=int((difference == 0).sum()),
    )


def randomisation_p(differences: Sequence[float] | Floats, *, resamples: int = RESAMPLES, seed: int = SEED) -> float:
    """Return the two-sided p of the paired randomisation (sign-flip) test.

    Under the null hypothesis the two systems are interchangeable on each query, so each difference keeps or
    flips its sign. Up to 13 differences that are not 0 all sign patterns are counted (exact); beyond that
    ``resamples`` patterns are drawn and ``p = (hits + 1) / (resamples + 1)``, never 0 (Smucker et al. 2007;
    Phipson & Smyth 2010).

    Args:
        differences: One difference a query.
        resamples: Patterns to draw, >= 1.
        seed: Seed of the draws.

    Returns:
        A value in (0, 1]; 1 when there is no difference at all.
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[values != 0]
    if not len(values):
        return 1.0
    # Equal sums reached in another order may differ in the last bit; they count as equal.
    reach = abs(float(values.sum())) - 1e-12 * float(np.abs(values).sum())
    if len(values) <= _EXACT_UP_TO:
        patterns = (np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1
        return float((np.abs((2 * patterns - 1) @ values) >= reach).mean())
    generator = np.random.default_rng(seed)
    hits, left = 0, resamples
    while left:
        rows = min(left, max(1, _CELLS_AT_ONCE // len(values)))
        bits = np.unpackbits(
            generator.integers(0, 256, (rows, (len(values) + 7) // 8), dtype=np.uint8),
            axis=1,
            count=len(values),
        )
        flipped = 2 * (bits.astype(np.float64) @ values) - values.sum()
        hits += int((np.abs(flipped) >= reach).sum())
        left -= rows
    return (hits + 1) / (resamples + 1)


def bootstrap_interval(
    values: Sequence[float] | Floats,
    *,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = SEED,
) -> tuple[float, float] | None:
    """Return the percentile bootstrap interval of a mean; of paired differences for a comparison.

    Args:
        values: One value a query.
        resamples: Draws, >= 1.
        confidence: Coverage, in (0, 1).
        seed: Seed of the draws.

    Returns:
        ``(low, high)``, or ``None`` below two values, where resampling says nothing.

    Raises:
        ConfigError: If ``confidence`` is not in (0, 1) or ``resamples`` is below 1.
    """
    if not 0 < confidence < 1 or resamples < 1:
        raise ConfigError(f"confidence {confidence} must lie in (0, 1) and resamples {resamples} must be at least 1")
    data = np.asarray(values, dtype=np.float64)
    if len(data) < 2:
        return None
    generator = np.random.default_rng(seed)
    means = np.empty(resamples)
    done = 0
    while done < resamples:
        rows = min(resamples - done, max(1, _CELLS_AT_ONCE // len(data)))
        means[done : done + rows] = data[generator.integers(0, len(data), (rows, len(data)), dtype=np.int32)].mean(1)
        done += rows
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p values for a family of comparisons (Holm 1979: controls the chance of any false claim).

    Args:
        p_values: One p a comparison.

    Returns:
        Corrected values in the same order, in (0, 1].
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def _paired(
    a: Mapping[str, float] | Sequence[float], b: Mapping[str, float] | Sequence[float]
) -> tuple[Floats, Floats]:
    if isinstance(a, Mapping) != isinstance(b, Mapping):
        raise DataError("one system is given by query id and the other as a list; give both in the same form")
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            odd = sorted(a.keys() ^ b.keys())
            raise DataError(
                f"the two systems were scored on different queries ({len(odd)} in only one of them, such as "
                f"{', '.join(odd[:3])}); score both on the same judgements"
            )
        # Sorted, so that the interval does not depend on the order of the dictionary.
        first, second = [a[key] for key in sorted(a)], [b[key] for key in sorted(a)]
    else:
        first, second = list(a), list(b)  # type: ignore[arg-type]
        if len(first) != len(second):
            raise DataError(f"{len(first)} values against {len(second)}; a paired test needs the same queries")
    pair = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if not all(math.isfinite(value) for array in pair for value in array):
        raise DataError("a value is not finite; a missing query counts 0, never NaN")
    return pair
