"""Names for conversations whose turns do not name them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from utilitune.records.query import Query

COUNT = "queries whose conversation was told from the first question"


def name_conversations(queries: Sequence[Query], counts: Counter[str]) -> list[Query]:
    """Give turns whose ids do not name their conversation one by their first question.

    An id such as ``c9<::>4`` has nothing before a last ``_``. Left alone, turns of one conversation would fall on both
    sides of a train/test split. Their first question tells them apart; two conversations that open alike become one,
    which is the safe side.

    Args:
        queries: All queries of a data set.
        counts: Takes the number of queries named.

    Returns:
        The queries in order; those concerned carry ``metadata["conversation"]``.
    """
    nameless = {query.first_question for query in queries if query.history and _nameless(query)}
    named = []
    for query in queries:
        if query.first_question in nameless and _nameless(query):
            digest = hashlib.sha256(query.first_question.encode()).hexdigest()[:12]
            query = replace(query, metadata={**query.metadata, "conversation": f"opening-{digest}"})
            counts[COUNT] += 1
        named.append(query)
    return named


def _nameless(query: Query) -> bool:
    return "_" not in query.id and "conversation" not in query.metadata
