"""Names for conversations whose turns do not name them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from utilitune.records.query import Query

COUNT = "queries whose conversation was told from the first question"
ALONE = "queries taken as single, although their ids look like turns of one conversation"


def name_conversations(queries: Sequence[Query], counts: Counter[str]) -> list[Query]:
    """Give turns whose ids do not name their conversation one by their first question.

    An id such as ``c9<::>4`` has nothing before a last ``_``. Left alone, turns of one conversation would
    fall on both sides of a train/test split. Their first question tells them apart; two conversations that
    open alike become one, which is the safe side.

    Ids such as ``test_1``, ``test_2`` only look like turns. Where other queries have a history, and of those that
    share a name none has, they are no conversation: each becomes its own. Where no query has a history, all become
    their own if one name covers more than half of them.

    Args:
        queries: All queries of a data set.
        counts: Takes the number of queries named.

    Returns:
        The queries in order; those concerned carry ``metadata["conversation"]``.
    """
    alone = _look_alike(queries)
    nameless = {_opening(query) for query in queries if query.history and _nameless(query)}
    named = []
    for query in queries:
        if query.conversation in alone:
            query = replace(query, metadata={**query.metadata, "conversation": query.id})
            counts[ALONE] += 1
        elif _opening(query) in nameless and _nameless(query):
            digest = hashlib.sha256(_opening(query).encode()).hexdigest()[:12]
            query = replace(query, metadata={**query.metadata, "conversation": f"opening-{digest}"})
            counts[COUNT] += 1
        named.append(query)
    return named


def _look_alike(queries: Sequence[Query]) -> set[str]:
    """Return the names that are no conversation's, although ids like ``test_1``, ``test_2`` share them."""
    sizes = Counter(query.conversation for query in queries)
    told = {query.conversation for query in queries if query.history or "conversation" in query.metadata}
    if any(query.history for query in queries):
        return {name for name, size in sizes.items() if size > 1 and name not in told}
    if told or len(queries) < 2 or max(sizes.values()) <= len(queries) / 2:
        return set()
    return set(sizes)


def _opening(query: Query) -> str:
    """Return the first question, white space evened out: histories are often trimmed where questions are not."""
    return " ".join(query.first_question.split())


def _nameless(query: Query) -> bool:
    return "_" not in query.id and "conversation" not in query.metadata
