"""Queries that are no independent evidence of each other: the turns of one conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from utilitune.errors import ConfigError, DataError
from utilitune.records.query import Query

Floats = NDArray[np.float64]
Clusters = Mapping[str, str]
"""``{query_id: cluster}``."""

CLUSTERINGS = ("conversation", "query")
"""What may be taken whole."""


def find_clusters(queries: Iterable[Query], by: str | None = None) -> dict[str, str] | None:
    """Return the cluster of every query, for ``significance`` and tables.

    Args:
        queries: The queries.
        by: A name in ``CLUSTERINGS``; when not given, ``"conversation"`` where some query has a history or names its
            conversation, and some conversation has several queries; ``"query"`` elsewhere: ids alone tell none.

    Returns:
        ``{query_id: cluster}``; ``None`` where every query stands for itself.

    Raises:
        ConfigError: For an unknown name.
    """
    rows = list(queries)
    if by not in (None, *CLUSTERINGS):
        raise ConfigError(f"unknown clusters {by!r}; known: {', '.join(CLUSTERINGS)}")
    told = any(row.history or "conversation" in row.metadata for row in rows)
    if by == "query" or (by is None and not told):
        return None
    found = {row.id: row.conversation for row in rows}
    return None if by is None and len(set(found.values())) == len(found) else found


def check_covered(ids: Iterable[str], clusters: Clusters) -> None:
    """Refuse queries whose cluster is not known.

    Args:
        ids: The queries that were scored.
        clusters: Cluster of each.

    Raises:
        DataError: Naming some of them.
    """
    lacking = sorted({query_id for query_id in ids if query_id not in clusters})
    if lacking:
        raise DataError(
            f"{len(lacking)} scored queries have no cluster (such as {', '.join(map(repr, lacking[:3]))}); expected "
            "one for each: give the data set that holds them, or compare without clusters (--cluster-by query)"
        )


def cluster_sums(values: Floats, ids: Sequence[str] | None, clusters: Clusters | None) -> tuple[Floats, Floats]:
    """Add up values by cluster, clusters in the order in which they are first met.

    Args:
        values: One value a query, shape (n,).
        ids: Their queries; needed with ``clusters``.
        clusters: Cluster of each query; each by itself when ``None``.

    Returns:
        Sum and number of values of each cluster, both of shape (clusters,). A sum that is 0 but for rounding is 0.

    Raises:
        DataError: If a query has no cluster, or clusters are given for values without ids.
    """
    if clusters is None:
        return values, np.ones(len(values))
    if ids is None:
        raise DataError("clusters are by query id, and the values are a plain list; give {query_id: value}")
    check_covered(ids, clusters)
    number: dict[str, int] = {}
    places = np.array([number.setdefault(clusters[query_id], len(number)) for query_id in ids], dtype=np.int64)
    sums = np.bincount(places, values, len(number)).astype(np.float64)
    scale = np.bincount(places, np.abs(values), len(number))
    sums[np.abs(sums) <= 1e-12 * scale] = 0.0
    return sums, np.bincount(places, minlength=len(number)).astype(np.float64)
