"""What a split keeps together: the turns of one conversation, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from utilitune.records import Query


def find_conversations(queries: Iterable[Query]) -> dict[str, str]:
    """Return the conversation of every query of a data set, where the data tell of one.

    ``nq_1`` and ``nq_2`` look like turns of ``nq``. A name that several queries share is a conversation only where
    one of them has a history or names it; elsewhere each query stands for itself.

    Args:
        queries: All queries of the data set: the turn that tells may be one that is not labelled.

    Returns:
        ``{query_id: conversation}``; its own id for a query that stands for itself.
    """
    rows = list(queries)
    told = {row.conversation for row in rows if row.history or "conversation" in row.metadata}
    sizes = Counter(row.conversation for row in rows)
    return {
        row.id: row.conversation if row.conversation in told or sizes[row.conversation] == 1 else row.id for row in rows
    }
