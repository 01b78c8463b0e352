"""A candidate's whole ranking as its reward: the reciprocal rank that it can expect, with no passage judged.

One label of one passage is noisy. All candidates of a question together have found some ten passages; their labels,
as a softmax, say how likely each is to be the one that is needed, and a candidate is worth the mean of 1 / rank under
that belief. Two candidates that found the same passages in another order still differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import pstdev

EXPECTED_MRR = "expected-mrr"
DEPTH = 10
"""How deep a ranking is read; passages below a candidate's top k count where another candidate had them labelled."""


def belief(utilities: Mapping[str, float]) -> dict[str, float]:
    """Return how likely each passage is to be the one that is needed.

    Args:
        utilities: ``{passage id: utility}`` of every passage that the question's candidates had labelled.

    Returns:
        softmax((u - mean) / standard deviation): in [0, 1], summing to 1; all equal when nothing differs by more than
        rounding. The standard deviation is the question's own, so that a utility of any unit will do.
    """
    if not utilities:
        return {}
    values = list(utilities.values())
    top, spread = max(values), pstdev(values)
    # Rounding errors of equal values must not become the unit.
    if spread <= 1e-12 * max(map(abs, values)):
        return dict.fromkeys(utilities, 1.0 / len(utilities))
    weights = {name: math.exp((value - top) / spread) for name, value in utilities.items()}
    total = math.fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def expected_mrr(ranking: Sequence[str], beliefs: Mapping[str, float]) -> float:
    """Return the reciprocal rank that a ranking can expect: the sum over its top ``DEPTH`` of belief / rank.

    Args:
        ranking: Passage ids, best first, each once.
        beliefs: From ``belief``; other passages count 0.

    Returns:
        A number in [0, 1]; 0.0 for an empty ranking.
    """
    return math.fsum(beliefs.get(one, 0.0) / rank for rank, one in enumerate(ranking[:DEPTH], 1))
