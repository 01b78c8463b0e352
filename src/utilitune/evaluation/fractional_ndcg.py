"""nDCG over fractional gains: written here because pytrec_eval takes integers only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def fractional_ndcg(order: Sequence[str], gains: Mapping[str, float], cutoff: int | None = None) -> float:
    """Compute nDCG with linear gains and log2 discount (Järvelin & Kekäläinen 2002), as trec_eval.

    ``Σ_i g_i / log2(i + 1)`` over the first ``cutoff`` ranks, divided by the same sum over the best order of
    all gains. Negative gains count 0; passages without a gain count 0.

    Args:
        order: Passage ids in rank order, may be shorter than ``cutoff``.
        gains: Gains of one query's judged passages.
        cutoff: Ranks that count, ``None`` for all.

    Returns:
        A value in [0, 1].

    Raises:
        ValueError: If no gain is positive: there is no ideal order to compare with.
    """
    ideal = _dcg(sorted(gains.values(), reverse=True)[:cutoff])
    if ideal <= 0:
        raise ValueError("nDCG is undefined without a positive gain")
    # Rounding can put a perfect order a hair above 1.
    return min(_dcg([gains.get(passage_id, 0.0) for passage_id in order[:cutoff]]) / ideal, 1.0)


def _dcg(gains: Sequence[float]) -> float:
    return math.fsum(max(gain, 0.0) / math.log2(rank + 2) for rank, gain in enumerate(gains))
