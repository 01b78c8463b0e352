"""Rankings and judgements: plain dictionaries keyed by query id."""

from __future__ import annotations

Qrels = dict[str, dict[str, float]]
"""``{query_id: {passage_id: grade}}``; float grades are kept."""


class Run(dict[str, list[tuple[str, float]]]):
    """``{query_id: [(passage_id, score), ...]}`` in rank order.

    A query that retrieved nothing maps to an empty list.
    """

    def top(self, k: int) -> Run:
        """Return the same run cut to the first ``k`` passages of every query."""
        return Run({query_id: ranking[:k] for query_id, ranking in self.items()})
