"""A candidate's whole ranking as its reward: the reciprocal rank that it can expect, with no passage judged.

One label of one passage is noisy. All candidates of a question together have found some ten passages. Which of them is
needed is told by two witnesses: how high and how often the candidates rank it (before anything is labelled), and its
label, as a softmax. Their product is the belief, and a candidate is worth the mean of 1 / rank under it. Two candidates
that found the same passages in another order still differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import pstdev

EXPECTED_MRR = "expected-mrr"
DEPTH = 10
"""How deep a ranking is read; passages below a candidate's top k count where another candidate had them labelled."""


def consensus(rankings: Iterable[Sequence[str]]) -> dict[str, float]:
    """Return how much the candidates agree on each passage: the sum of 1 / rank over all rankings.

    Args:
        rankings: Of all the question's candidates, by every retriever; each best first, a passage once, read to
            ``DEPTH``.

    Returns:
        ``{passage id: weight}``, above 0.
    """
    shares: dict[str, list[float]] = {}
    for ranking in rankings:
        for rank, name in enumerate(ranking[:DEPTH], 1):
            shares.setdefault(name, []).append(1.0 / rank)
    # Exact, so that the order of the candidates is no difference: an ulp would make a pair of a tie.
    return {name: math.fsum(own) for name, own in shares.items()}


def belief(utilities: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Return how likely each passage is to be the one that is needed.

    Args:
        utilities: ``{passage id: utility}`` of every passage that the question's candidates had labelled.
        weights: From ``consensus``; a passage without weight is left out.

    Returns:
        weight × exp((u - mean) / standard deviation), normalised: in [0, 1], summing to 1; the weights alone decide
        where no utility differs by more than rounding. The standard deviation is the question's own, so that a utility
        of any unit will do.
    """
    known = {name: value for name, value in utilities.items() if weights.get(name, 0.0) > 0.0}
    if not known:
        return {}
    values = list(known.values())
    top, spread = max(values), pstdev(values)
    # Rounding errors of equal values must not become the unit.
    if spread <= 1e-12 * max(map(abs, values)):
        spread = math.inf
    products = {name: weights[name] * math.exp((value - top) / spread) for name, value in known.items()}
    total = math.fsum(products.values())
    return {name: product / total for name, product in products.items()}


def expected_mrr(ranking: Sequence[str], beliefs: Mapping[str, float]) -> float:
    """Return the reciprocal rank that a ranking can expect: the sum over its top ``DEPTH`` of belief / rank.

    Args:
        ranking: Passage ids, best first, each once.
        beliefs: From ``belief``; other passages count 0.

    Returns:
        A number in [0, 1]; 0.0 for an empty ranking.
    """
    return math.fsum(beliefs.get(one, 0.0) / rank for rank, one in enumerate(ranking[:DEPTH], 1))
