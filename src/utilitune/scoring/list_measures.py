"""One number for a ranked list from what each of its passages is worth alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum, log2

ListMeasure = Callable[[Sequence[float]], float]


def precision(gains: Sequence[float]) -> float:
    """Mean of the gains (P@k of the list); 0 for an empty list."""
    return fsum(gains) / len(gains) if gains else 0.0


def success(gains: Sequence[float]) -> float:
    """Largest gain; 0 for an empty list."""
    return max(gains, default=0.0)


def ndcg(gains: Sequence[float]) -> float:
    """``DCG / ideal DCG`` with ``DCG = sum_i g_i / log2(1 + i)``, ranks from 1; 0 where no passage gains anything.

    The ideal order is of this list alone: passages that were not retrieved are not known.
    """
    ideal = _discounted(sorted(gains, reverse=True))
    return _discounted(gains) / ideal if ideal else 0.0


def _discounted(gains: Sequence[float]) -> float:
    return fsum(gain / log2(1 + rank) for rank, gain in enumerate(gains, 1))


LIST_MEASURES: dict[str, ListMeasure] = {"precision": precision, "success": success, "ndcg": ndcg}
"""Measures by name; gains in rank order, each in [0, 1]."""
