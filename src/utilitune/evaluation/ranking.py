"""The one ranking of a query that every measure reads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from utilitune.errors import DataError
from utilitune.records.run import Run


def ranking(scored: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return one query's passages as trec_eval ranks them: score descending, equal scores by id descending.

    The order of ``scored`` plays no part, so permuting a run changes no number. A score that is not finite
    says nothing about the passage: it ranks last. Of a repeated passage the best place counts.

    Args:
        scored: ``(passage_id, score)`` pairs in any order.

    Returns:
        The pairs in rank order, each passage once.

    Raises:
        DataError: If a score is not a number.
    """
    try:
        keyed = [(math.isfinite(score), score if math.isfinite(score) else 0.0, pid) for pid, score in scored]
    except TypeError as error:
        raise DataError(f"a run holds a score that is not a number ({error}); scores must be floats") from error
    keyed.sort(reverse=True)
    best: dict[str, float] = {}
    for finite, score, pid in keyed:
        best.setdefault(pid, float(score) if finite else math.nan)
    return list(best.items())


@dataclass
class RankedRun:
    """A run under the one tie rule, and what was odd about it.

    Attributes:
        order: ``{query_id: [passage_id, ...]}`` of every query asked for that the run holds.
        retrieved: Passages in ``order``.
        tied: Passages whose score another passage of the same query shares.
        non_finite: Passages whose score was NaN or infinite (ranked last).
        duplicates: Repeated passages that were left out.
    """

    order: dict[str, list[str]] = field(default_factory=dict)
    retrieved: int = 0
    tied: int = 0
    non_finite: int = 0
    duplicates: int = 0

    @property
    def tie_rate(self) -> float:
        """Share of the passages that are tied, in [0, 1]."""
        return self.tied / self.retrieved if self.retrieved else 0.0


def rank_run(run: Run, query_ids: Iterable[str]) -> RankedRun:
    """Rank the given queries of ``run`` by the one rule; queries that the run lacks are left out.

    Args:
        run: The run, its lists in any order.
        query_ids: The queries to rank.

    Returns:
        The order of each, and the counts.
    """
    ranked = RankedRun()
    for query_id in query_ids:
        if query_id not in run:
            continue
        pairs = ranking(run[query_id])
        ranked.order[query_id] = [passage_id for passage_id, _ in pairs]
        ranked.retrieved += len(pairs)
        ranked.duplicates += len(run[query_id]) - len(pairs)
        finite = [score for _, score in pairs if math.isfinite(score)]
        ranked.non_finite += len(pairs) - len(finite)
        ranked.tied += sum(count for count in Counter(finite).values() if count > 1)
    return ranked
