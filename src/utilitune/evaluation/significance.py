"""Paired tests and intervals over queries, or over whole clusters of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.clusters import Clusters, Floats, cluster_sums

RESAMPLES = 10_000
SEED = 13
_CELLS_AT_ONCE = 2_000_000
_EXACT_UP_TO = 13

Values = Mapping[str, float] | Sequence[float]


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
        clusters: Clusters that interval and test took whole; ``None`` where each query stood for itself.
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
    clusters: int | None = None


def significance(
    a: Values,
    b: Values,
    *,
    clusters: Clusters | None = None,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = SEED,
) -> Significance:
    """Compare ``b`` (after) with ``a`` (before), query by query.

    Turns of one conversation share its topic, its speaker and its passages: taken as independent, they make an interval
    too narrow. With ``clusters`` the bootstrap draws whole clusters (the mean is over the queries of those drawn) and
    the test flips the sign of whole clusters: under the null hypothesis the systems are interchangeable on each of
    them. One query a cluster gives the same numbers as no clusters. (Cluster bootstrap: Davison & Hinkley 1997, §3.8;
    both rest on the number of clusters, and on that of queries no more.)

    Args:
        a: Values of the first system: ``{query_id: value}``, or a sequence in a fixed order of the queries.
        b: Values of the second system for the same queries.
        clusters: ``{query_id: cluster}`` of at least these queries; needs values by query id.
        resamples: Draws of the test and of the interval, each.
        confidence: Coverage of the interval, in (0, 1).
        seed: Seed of both.

    Returns:
        Means, difference, percentile interval and p; ``p_holm`` is ``None``.

    Raises:
        DataError: If the two do not cover the same queries, a value is not finite, or a query has no cluster.
    """
    (alone,) = significance_family([(a, b)], clusters=clusters, resamples=resamples, confidence=confidence, seed=seed)
    return replace(alone, p_holm=None)


def significance_family(
    pairs: Sequence[tuple[Values, Values]],
    *,
    clusters: Clusters | None = None,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = SEED,
) -> list[Significance]:
    """Make several comparisons that are read together: as ``significance``, p corrected by Holm over all of them.

    Comparisons over equally many queries (or clusters) share their draws, so that each equals the one made alone, for a
    fraction of the time.

    Args:
        pairs: ``(before, after)`` of each comparison, as ``significance`` takes them.
        clusters: As in ``significance``, the same for all.
        resamples: Draws of each test and interval.
        confidence: Coverage of the intervals, in (0, 1).
        seed: Seed of all.

    Returns:
        One comparison a pair, ``p_holm`` filled in.

    Raises:
        DataError: If a pair does not cover the same queries, a value is not finite, or a query has no cluster.
    """
    both = [_paired(a, b) for a, b in pairs]
    columns = [cluster_sums(second - first, ids, clusters) for first, second, ids in both]
    intervals = _intervals(columns, resamples, confidence, seed)
    p_values = _randomisation_ps([sums for sums, _ in columns], resamples, seed)
    found = []
    for (first, second, _), (sums, _), interval, p, corrected in zip(
        both, columns, intervals, p_values, holm(p_values), strict=True
    ):
        difference = second - first
        n = len(difference)
        low, high = interval or (None, None)
        found.append(
            Significance(
                n=n,
                before=float(first.mean()) if n else None,
                after=float(second.mean()) if n else None,
                difference=float(difference.mean()) if n else None,
                low=low,
                high=high,
                p=p,
                wins=int((difference > 0).sum()),
                losses=int((difference < 0).sum()),
                ties=int((difference == 0).sum()),
                p_holm=corrected,
                clusters=None if clusters is None else len(sums),
            )
        )
    return found


def randomisation_p(
    differences: Values | Floats,
    *,
    clusters: Clusters | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> float:
    """Return the two-sided p of the paired randomisation (sign-flip) test.

    Under the null hypothesis the two systems are interchangeable on each query, so each difference keeps or
    flips its sign; with clusters, those of a cluster do together. Up to 13 differences (of clusters: sums) that
    are not 0, all sign patterns are counted (exact); beyond that ``resamples`` patterns are drawn and
    ``p = (hits + 1) / (resamples + 1)``, never 0 (Smucker et al. 2007; Phipson & Smyth 2010).

    Args:
        differences: One difference a query, by query id where there are clusters.
        clusters: As in ``significance``.
        resamples: Patterns to draw, >= 1.
        seed: Seed of the draws.

    Returns:
        A value in (0, 1]; 1 when there is no difference at all.

    Raises:
        DataError: If a query has no cluster, or clusters are given for a plain list.
    """
    return _randomisation_ps([cluster_sums(*_ordered(differences), clusters)[0]], resamples, seed)[0]


def _randomisation_ps(columns: Sequence[Floats], resamples: int, seed: int) -> list[float]:
    found: dict[int, float] = {}
    sampled: dict[int, list[int]] = {}
    for index, values in enumerate(columns):
        moved = values[values != 0]
        if not len(moved):
            found[index] = 1.0
        elif len(moved) <= _EXACT_UP_TO:
            patterns = (np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved))) & 1
            found[index] = float((np.abs((2 * patterns - 1) @ moved) >= _reach(moved)).mean())
        else:
            sampled.setdefault(len(values), []).append(index)
    for n, indices in sampled.items():
        hits = dict.fromkeys(indices, 0)
        for bits in _sign_flips(n, resamples, seed):
            for index in indices:
                values = columns[index]
                sums = 2 * (bits @ values) - values.sum()
                hits[index] += int((np.abs(sums) >= _reach(values)).sum())
        found |= {index: (count + 1) / (resamples + 1) for index, count in hits.items()}
    return [found[index] for index in range(len(columns))]


def _reach(values: Floats) -> float:
    # Equal sums reached in another order may differ in the last bit; they count as equal.
    return abs(float(values.sum())) - 1e-12 * float(np.abs(values).sum())


def _sign_flips(n: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield blocks of rows of 0 and 1, ``resamples`` rows of ``n`` in all."""
    generator = np.random.default_rng(seed)
    for rows in _blocks(n, resamples):
        packed = generator.integers(0, 256, (rows, (n + 7) // 8), dtype=np.uint8)
        yield np.unpackbits(packed, axis=1, count=n).astype(np.float64)


def bootstrap_interval(
    values: Values | Floats,
    *,
    clusters: Clusters | None = None,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = SEED,
) -> tuple[float, float] | None:
    """Return the percentile bootstrap interval of a mean; of paired differences for a comparison.

    Args:
        values: One value a query, by query id where there are clusters.
        clusters: As in ``significance``.
        resamples: Draws, >= 1.
        confidence: Coverage, in (0, 1).
        seed: Seed of the draws.

    Returns:
        ``(low, high)``, or ``None`` below two values (or clusters), where resampling says nothing.

    Raises:
        ConfigError: If ``confidence`` is not in (0, 1) or ``resamples`` is below 1.
        DataError: If a query has no cluster, or clusters are given for a plain list.
    """
    return bootstrap_intervals([values], clusters=clusters, resamples=resamples, confidence=confidence, seed=seed)[0]


def bootstrap_intervals(
    columns: Sequence[Values | Floats],
    *,
    clusters: Clusters | None = None,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = SEED,
) -> list[tuple[float, float] | None]:
    """Return the interval of each of several means; columns of equal length share their draws.

    Args:
        columns: The values of each mean, one a query, by query id where there are clusters.
        clusters: As in ``significance``.
        resamples: Draws, >= 1.
        confidence: Coverage, in (0, 1).
        seed: Seed of the draws.

    Returns:
        As ``bootstrap_interval``, one a column.

    Raises:
        ConfigError: If ``confidence`` is not in (0, 1) or ``resamples`` is below 1.
        DataError: If a query has no cluster, or clusters are given for a plain list.
    """
    data = [cluster_sums(*_ordered(values), clusters) for values in columns]
    return _intervals(data, resamples, confidence, seed)


def _intervals(
    columns: Sequence[tuple[Floats, Floats]], resamples: int, confidence: float, seed: int
) -> list[tuple[float, float] | None]:
    """Return the interval of each ratio of sums: ``(sums, sizes)`` of the units that are drawn."""
    if not 0 < confidence < 1 or resamples < 1:
        raise ConfigError(f"confidence {confidence} must lie in (0, 1) and resamples {resamples} must be at least 1")
    found: list[tuple[float, float] | None] = [None] * len(columns)
    alike: dict[int, list[int]] = {}
    for index, (sums, _) in enumerate(columns):
        if len(sums) >= 2:
            alike.setdefault(len(sums), []).append(index)
    tail = (1 - confidence) / 2
    for n, indices in alike.items():
        # Measures of one table share their queries, so that the queries drawn are counted once for all of them.
        sizes = {columns[index][1].tobytes(): columns[index][1] for index in indices}
        means: dict[int, list[Floats]] = {index: [] for index in indices}
        for counts in _draw_counts(n, resamples, seed):
            drawn = {key: counts @ size for key, size in sizes.items()}
            for index in indices:
                sums, size = columns[index]
                means[index].append(counts @ sums / drawn[size.tobytes()])
        for index in indices:
            low, high = np.quantile(np.concatenate(means[index]), [tail, 1 - tail])
            found[index] = float(low), float(high)
    return found


def _draw_counts(n: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield blocks of rows that say how often each of ``n`` queries was drawn, ``resamples`` rows in all."""
    generator = np.random.default_rng(seed)
    for rows in _blocks(n, resamples):
        drawn = generator.integers(0, n, (rows, n), dtype=np.int64)
        drawn += np.arange(rows, dtype=np.int64)[:, None] * n
        yield np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def _blocks(n: int, resamples: int) -> Iterator[int]:
    most = max(1, _CELLS_AT_ONCE // n)
    for start in range(0, resamples, most):
        yield min(most, resamples - start)


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


def _ordered(values: Values | Floats) -> tuple[Floats, list[str] | None]:
    """Return values and their queries, sorted, so that no number depends on the order of a dictionary."""
    if not isinstance(values, Mapping):
        return np.asarray(values, dtype=np.float64), None
    ids = sorted(values)
    return np.asarray([values[query_id] for query_id in ids], dtype=np.float64), ids


def _paired(a: Values, b: Values) -> tuple[Floats, Floats, list[str] | None]:
    if isinstance(a, Mapping) != isinstance(b, Mapping):
        raise DataError("one system is given by query id and the other as a list; give both in the same form")
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.keys() != b.keys():
        odd = sorted(a.keys() ^ b.keys())
        raise DataError(
            f"the two systems were scored on different queries ({len(odd)} in only one of them, such as "
            f"{', '.join(odd[:3])}); score both on the same judgements"
        )
    (first, ids), (second, _) = _ordered(a), _ordered(b)
    if len(first) != len(second):
        raise DataError(f"{len(first)} values against {len(second)}; a paired test needs the same queries")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise DataError("a value is not finite; a missing query counts 0, never NaN")
    return first, second, ids
