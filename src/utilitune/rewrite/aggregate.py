"""From passage utilities to one number a candidate, and to one scale across retrievers and utilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from utilitune.errors import ConfigError

EMPTY_UTILITY = 0.0
"""Utility of no passage at all: 0 by definition of every gain form (GroGU, information-gain, entropy-drop
compare with the bare question), and the least value of ``abstention``."""

Aggregate = Callable[[Sequence[float]], float]
Scale = Callable[[Mapping[str, Sequence[float]]], dict[str, list[float]]]


def discounted(utilities: Sequence[float]) -> float:
    """Return sum of u_i / log2(i + 1), i = 1 for the top passage."""
    return math.fsum(utility / math.log2(rank + 2) for rank, utility in enumerate(utilities))


AGGREGATES: dict[str, Aggregate] = {
    "mean": fmean,
    "max": max,
    "top-1": lambda utilities: utilities[0],
    "discounted": discounted,
}
"""From utilities in rank order (at least one) to a number."""

WIDER = ("expected-mrr", "set")
"""Aggregates that read more than a candidate's own labels: those of the question's other candidates, or one label
of all passages together."""


def pooled(groups: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Centre within each query, divide by one spread for all: the root mean square of the centred values.

    A z-score whose unit is shared, so that the margin of a pair says how much its query's candidates really
    differ; a z-score of each query by itself would blow a difference of 1e-6 up to the same margin as one of
    1.

    Args:
        groups: ``{query_id: values of its candidates}``.

    Returns:
        The same shape; all zeros when nothing differs.
    """
    centred = {key: [value - fmean(values) for value in values] for key, values in groups.items()}
    # A query with one candidate has no spread; it would only water the unit down.
    spread = [value for values in centred.values() if len(values) > 1 for value in values]
    unit = math.sqrt(fmean(value * value for value in spread)) if spread else 0.0
    # Centring equal values leaves rounding errors, which must not become the unit.
    if unit <= 1e-12 * max((abs(value) for values in groups.values() for value in values), default=0.0):
        return {key: [0.0] * len(values) for key, values in groups.items()}
    return {key: [value / unit for value in values] for key, values in centred.items()}


def z_score(groups: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Centre and divide by the standard deviation within each query; zeros where a query's values are all equal."""
    return {key: pooled({key: values})[key] for key, values in groups.items()}


def rank_scale(groups: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Replace values by mid-ranks within the query, mapped onto [-1, 1]; a lone value becomes 0."""
    return {key: [_mid_rank(value, values) for value in values] for key, values in groups.items()}


def raw_scale(groups: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Leave values as they are: for one utility, when the margin is wanted in its own unit."""
    return {key: list(values) for key, values in groups.items()}


SCALES: dict[str, Scale] = {"pooled": pooled, "z-score": z_score, "rank": rank_scale, "raw": raw_scale}


def check_names(aggregate: str, scale: str) -> None:
    """Refuse an unknown aggregate or scale.

    Args:
        aggregate: One of ``AGGREGATES`` or ``WIDER``.
        scale: One of ``SCALES``.

    Raises:
        ConfigError: Listing the known names.
    """
    if aggregate not in (*AGGREGATES, *WIDER):
        raise ConfigError(f"aggregate={aggregate!r} is unknown; known: {', '.join([*AGGREGATES, *WIDER])}")
    if scale not in SCALES:
        raise ConfigError(f"scale={scale!r} is unknown; known: {', '.join(SCALES)}")


def _mid_rank(value: float, values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    below = sum(other < value for other in values)
    above = sum(other > value for other in values)
    return (below - above) / (len(values) - 1)
