"""From scores to a ranking: one tie rule for every retriever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from utilitune.errors import ConfigError, DataError
from utilitune.records.query import Query


class Ranker:
    """Ranks corpus positions by score, ties by descending passage id, as trec_eval does.

    Scores are compared in float32, which is what trec_eval reads; the order here is therefore the order that every
    metric sees.

    Args:
        ids: Passage ids in corpus order.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = list(ids)
        # Code point order of strings is byte order of their UTF-8 form, trec_eval's comparison.
        self._rank = np.empty(len(self.ids), dtype=np.int64)
        self._rank[sorted(range(len(self.ids)), key=self.ids.__getitem__)] = np.arange(len(self.ids))

    def top(self, positions: NDArray[np.int64], scores: NDArray[np.floating[Any]], k: int) -> list[tuple[str, float]]:
        """Return the best ``k`` of some corpus positions.

        Args:
            positions: Corpus positions, shape ``(n,)``, each once.
            scores: Their scores, shape ``(n,)``.
            k: Length limit, >= 1; fewer positions give a shorter ranking.

        Returns:
            ``(passage id, score)`` pairs in rank order.
        """
        scores = scores.astype(np.float32)
        if len(scores) > k:
            # Keep everything that ties with the k-th score, else chance decides who is in.
            keep = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
            positions, scores = positions[keep], scores[keep]
        order = np.lexsort((-self._rank[positions], -scores))[:k]
        return [(self.ids[int(positions[i])], float(scores[i])) for i in order]


def texts_of(queries: Sequence[Query]) -> Mapping[str, str]:
    """Return query texts by id.

    Args:
        queries: Queries in any number.

    Returns:
        Texts in the queries' order.

    Raises:
        DataError: When two queries share an id.
    """
    texts: dict[str, str] = {}
    for query in queries:
        if query.id in texts:
            raise DataError(f"query id {query.id!r} occurs twice; a run has one ranking an id: make query ids unique")
        texts[query.id] = query.text
    return texts


def check_k(k: int) -> None:
    """Refuse a ``k`` below 1.

    Args:
        k: Wanted length of a ranking.

    Raises:
        ConfigError: When ``k < 1``.
    """
    if k < 1:
        raise ConfigError(f"k is {k}; a ranking needs k >= 1")
