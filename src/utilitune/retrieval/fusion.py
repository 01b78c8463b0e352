"""Reciprocal rank fusion of several runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from utilitune.errors import ConfigError
from utilitune.records.run import Run


def fuse(runs: Sequence[Run], k: int = 60, depth: int | None = None) -> Run:
    """Fuse runs by rank: ``score(d) = sum over runs of 1 / (k + rank of d)``, ranks from 1.

    Scores of the runs are not looked at, so retrievers with different scales mix. Reciprocal rank fusion is of Cormack,
    Clarke and Buettcher, SIGIR 2009, whose constant was 60. The order of ``runs`` does not matter. Equal scores
    stand in descending order of passage id, as trec_eval reads them.

    Args:
        runs: Runs to fuse, at least one; a query may be missing from some.
        k: Rank constant, >= 0; the larger, the less the top ranks count.
        depth: How many passages of each run's ranking to read; all when ``None``.

    Returns:
        One ranking for every query of any run, of all passages that were read.

    Raises:
        ConfigError: For no runs, ``k < 0`` or ``depth < 1``.
    """
    if not runs:
        raise ConfigError("no runs to fuse; give at least one")
    if k < 0:
        raise ConfigError(f"rank constant k is {k}; expected k >= 0 (60 is usual)")
    if depth is not None and depth < 1:
        raise ConfigError(f"depth is {depth}; expected depth >= 1, or None to read whole rankings")
    query_ids = dict.fromkeys(query_id for run in runs for query_id in run)
    return Run({query_id: _fuse_one([run.get(query_id, []) for run in runs], k, depth) for query_id in query_ids})


def _fuse_one(rankings: Sequence[Sequence[tuple[str, float]]], k: int, depth: int | None) -> list[tuple[str, float]]:
    shares: dict[str, list[float]] = {}
    for ranking in rankings:
        # A passage that a run lists twice counts at its better rank.
        for rank, passage_id in enumerate(dict.fromkeys(pid for pid, _ in ranking[:depth]), start=1):
            shares.setdefault(passage_id, []).append(1.0 / (k + rank))
    # fsum is exact, so equal ranks give equal scores in whatever order the runs came.
    scored = [(passage_id, fsum(parts)) for passage_id, parts in shares.items()]
    scored.sort(key=lambda pair: pair[0], reverse=True)
    scored.sort(key=lambda pair: pair[1], reverse=True)
    return scored
