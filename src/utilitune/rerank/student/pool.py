"""What an encoder is worth on held-out groups: each query is ranked against a pool of passages, by cosine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from utilitune.rerank.dev_measure import utility_ndcg
from utilitune.rerank.groups import Group
from utilitune.rerank.rescale import rescale

K = 10
# As in retrieval: what is equal to six digits is a tie.
DIGITS = 6


@dataclass(frozen=True)
class PoolMeasure:
    """Means over held-out queries.

    Attributes:
        ndcg: nDCG@10 in the pool, in [0, 1]; gains are the per-query min-max utilities, 0 for a passage that was not
            labelled for the query.
        recall: Share of queries whose most useful passage is among the first ten.
        mrr: Reciprocal rank of the most useful passage, 0 below rank ten.
        spread: Standard deviation of the cosines of a query's own candidates.
        non_finite: Cosines that were not finite (ranked last, left out of the spread).
        queries: Number of queries.
        pool: Number of distinct passages.
    """

    ndcg: float
    recall: float
    mrr: float
    spread: float
    non_finite: int
    queries: int
    pool: int

    def as_dict(self) -> dict[str, float | int]:
        """Return the fields as JSON-ready values."""
        return asdict(self)


@dataclass(frozen=True)
class Pool:
    """Held-out groups and the passages that their queries are ranked against.

    Attributes:
        groups: The held-out groups.
        texts: Distinct passages.
        rows: For each group the positions of its candidates in ``texts``.
    """

    groups: Sequence[Group]
    texts: Sequence[str]
    rows: Sequence[Sequence[int]]

    @classmethod
    def of(cls, dev: Sequence[Group], train: Sequence[Group], limit: int) -> Pool:
        """Collect a pool: all passages of ``dev``, then of ``train`` up to ``limit`` in all.

        Args:
            dev: Held-out groups, at least one.
            train: Training groups.
            limit: Passages in all; those of ``dev`` are there whatever it is.

        Returns:
            The pool.
        """
        place: dict[str, int] = {}
        for group in dev:
            for passage in group.passages:
                place.setdefault(passage, len(place))
        for group in train:
            for passage in group.passages:
                if len(place) >= limit:
                    break
                place.setdefault(passage, len(place))
        return cls(dev, list(place), [[place[passage] for passage in group.passages] for group in dev])

    def measure(self, queries: NDArray[np.float32], passages: NDArray[np.float32]) -> PoolMeasure:
        """Measure an encoder's vectors.

        Args:
            queries: Of the groups' queries, length 1, shape ``(groups, dimension)``.
            passages: Of ``texts``, length 1, shape ``(passages, dimension)``.

        Returns:
            The means.
        """
        scores = np.round(queries.astype(np.float64) @ passages.T.astype(np.float64), DIGITS)
        finite = np.isfinite(scores)
        scores = np.where(finite, scores, -np.inf)
        ndcg, ranks, spreads = [], [], []
        for row, group, own in zip(scores, self.groups, self.rows, strict=True):
            gains = np.zeros(len(row))
            gains[list(own)] = rescale(group.utilities, "min-max")
            ndcg.append(_ndcg(row, gains, own))
            ranks.append(_rank(row, int(gains.argmax())))
            mine = row[list(own)][np.isfinite(row[list(own)])]
            spreads.append(float(mine.std()) if len(mine) else 0.0)
        found = [rank <= K for rank in ranks]
        return PoolMeasure(
            ndcg=float(np.mean(ndcg)),
            recall=float(np.mean(found)),
            mrr=float(np.mean([1 / rank if hit else 0.0 for rank, hit in zip(ranks, found, strict=True)])),
            spread=float(np.mean(spreads)),
            non_finite=int((~finite).sum()),
            queries=len(self.groups),
            pool=len(self.texts),
        )


def _ndcg(scores: NDArray[np.float64], gains: NDArray[np.float64], own: Sequence[int]) -> float:
    # Without gain and below the tenth score a passage changes nothing.
    kept = scores >= np.sort(scores)[-K:][0]
    kept[list(own)] = True
    return utility_ndcg(scores[kept].tolist(), gains[kept].tolist(), K)


def _rank(scores: NDArray[np.float64], best: int) -> float:
    """Return the mean rank, from 1, that the best passage has over the orders of its ties."""
    return float(1 + (scores > scores[best]).sum() + ((scores == scores[best]).sum() - 1) / 2)
