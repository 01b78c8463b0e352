"""The first stage's score added to the reranker's, and how the weight is found without a judgement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from utilitune.evaluation import ranking
from utilitune.records import Run

STEPS = 20
WEIGHTS = tuple(step / STEPS for step in range(STEPS + 1))


def mixed(first: Run, reranked: Run, weight: float) -> Run:
    """Add two orders of the same candidates: ``(1 - weight) z(first) + weight z(reranked)``.

    ``z`` is the z-score within the query: the two scores share no scale, and neither do two queries.

    Args:
        first: First stage.
        reranked: The reranker's scores of the same passages.
        weight: Of the reranker, in [0, 1].

    Returns:
        The passages of ``reranked``, best first.
    """
    made = Run()
    for query_id, scored in reranked.items():
        before, after = _z(first.get(query_id, ())), _z(scored)
        sums = [(pid, (1 - weight) * before.get(pid, 0.0) + weight * own) for pid, own in after.items()]
        made[query_id] = ranking(sums)
    return made


def choose_weight(
    first: Run, reranked: Run, worth: Mapping[str, Mapping[str, float]]
) -> tuple[float, dict[float, float]]:
    """Choose the weight whose order has the best nDCG@10 with utilities as gains (``dev_measure.utility_ndcg``).

    Args:
        first: First stage of some held-out queries.
        reranked: The reranker's scores of the same passages.
        worth: ``{query_id: {passage_id: utility}}``; passages without one are left out once all are ordered.

    Returns:
        The weight (of equally good ones the smallest, nearest to the first stage) and the mean of each weight;
        ``(0.0, {})`` where no query has two passages of different worth.
    """
    from utilitune.rerank.dev_measure import utility_ndcg

    held = {q: {pid: worth[q][pid] for pid, _ in scored if pid in worth.get(q, {})} for q, scored in reranked.items()}
    held = {query_id: own for query_id, own in held.items() if len({*own.values()}) > 1}
    if not held:
        return 0.0, {}
    means: dict[float, float] = {}
    for weight in WEIGHTS:
        order = mixed(first, Run({query_id: reranked[query_id] for query_id in held}), weight)
        gained = []
        for query_id, own in held.items():
            scores = [score for pid, score in order[query_id] if pid in own]
            gained.append(utility_ndcg(scores, [own[pid] for pid, _ in order[query_id] if pid in own]))
        means[weight] = math.fsum(gained) / len(gained)
    return max(means, key=lambda weight: (round(means[weight], 9), -weight)), means


def _z(scored: Sequence[tuple[str, float]]) -> dict[str, float]:
    finite = [score for _, score in scored if math.isfinite(score)]
    if not finite:
        return {pid: 0.0 for pid, _ in scored}
    mean = math.fsum(finite) / len(finite)
    spread = math.sqrt(math.fsum((score - mean) ** 2 for score in finite) / len(finite)) or 1.0
    lowest = (min(finite) - mean) / spread
    return {pid: (score - mean) / spread if math.isfinite(score) else lowest for pid, score in scored}
