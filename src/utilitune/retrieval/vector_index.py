"""Nearest vectors by inner product: exact, HNSW and IVF-PQ on FAISS, and exact on NumPy."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from utilitune.errors import ConfigError, DataError

Vectors = NDArray[np.float32]
Neighbours = tuple[NDArray[np.float32], NDArray[np.int64]]

# k-means wants 39 points a centroid (FAISS warns below that).
POINTS_A_CENTROID = 39
# A piece of a code is one of 256 centroids, learnt from the very vectors that are indexed. Few points a centroid thus
# cost time, not quality: on 1,793 passages 8 bits kept .83 of the exact top ten, 5 bits (39 points a centroid) .69.
IVFPQ_BITS = 8
IVFPQ_SMALLEST = 4 * 2**IVFPQ_BITS
# Up to this many vectors an HNSW graph is built on one thread, so that the same vectors make the same graph; above, on
# all threads.
HNSW_ONE_THREAD_UP_TO = 100_000


class VectorIndex(Protocol):
    """Vectors that can be searched."""

    exact: bool

    @property
    def size(self) -> int:
        """Number of vectors."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def search(self, queries: Vectors, k: int) -> Neighbours:
        """Return inner products and rows, both ``(queries, k)``, best first; row -1 where fewer were found."""
        ...

    def save(self, folder: Path) -> None:
        """Write the index file."""
        ...


class NumpyIndex:
    """All inner products by one matrix product a block of queries; needs no FAISS."""

    exact = True

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = np.ascontiguousarray(vectors)

    @property
    def size(self) -> int:
        """Number of vectors."""
        return int(self._vectors.shape[0])

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._vectors.shape[1])

    def search(self, queries: Vectors, k: int) -> Neighbours:
        """Return inner products and rows, both ``(queries, k)``, best first."""
        k = min(k, self.size)
        scores = np.empty((len(queries), k), dtype=np.float32)
        rows = np.empty((len(queries), k), dtype=np.int64)
        for at in range(0, len(queries), 64):
            products = queries[at : at + 64] @ self._vectors.T
            best = np.argpartition(-products, k - 1, axis=1)[:, :k]
            found = np.take_along_axis(products, best, axis=1)
            order = np.argsort(-found, axis=1, kind="stable")
            rows[at : at + 64] = np.take_along_axis(best, order, axis=1)
            scores[at : at + 64] = np.take_along_axis(found, order, axis=1)
        return scores, rows

    def save(self, folder: Path) -> None:
        """Write ``vectors.npy``."""
        np.save(folder / "vectors.npy", self._vectors, allow_pickle=False)


class FaissIndex:
    """A FAISS index; its scores are inner products, approximate ones when vectors are stored as codes (IVF-PQ)."""

    def __init__(self, index: Any, *, exact: bool) -> None:
        self._index = index
        self.exact = exact

    @property
    def size(self) -> int:
        """Number of vectors."""
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._index.d)

    def search(self, queries: Vectors, k: int) -> Neighbours:
        """Return inner products and rows, both ``(queries, k)``, best first; row -1 where fewer were found."""
        if hasattr(self._index, "hnsw"):
            # The beam must be wider than the result, else the tail of it is chance.
            self._index.hnsw.efSearch = max(128, 2 * k)
        scores, rows = self._index.search(np.ascontiguousarray(queries), k)
        return scores, rows

    def save(self, folder: Path) -> None:
        """Write ``index.faiss``."""
        load_faiss().write_index(self._index, str(folder / "index.faiss"))


def load_faiss() -> Any:
    """Import FAISS, on first use only.

    torch and FAISS each bring an OpenMP runtime; on macOS two of them with threads abort or crash, so there FAISS
    runs on one thread. Nothing is changed elsewhere.

    Returns:
        The module.

    Raises:
        ConfigError: When FAISS cannot be imported.
    """
    try:
        import faiss
    except ImportError as error:
        raise ConfigError(
            f"FAISS cannot be imported ({error}); install faiss-cpu, or use the exact index='numpy'"
        ) from error
    if platform.system() == "Darwin":
        faiss.omp_set_num_threads(1)
    return faiss


def _numpy(vectors: Vectors) -> VectorIndex:
    return NumpyIndex(vectors)


def _flat(vectors: Vectors) -> VectorIndex:
    faiss = load_faiss()
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return FaissIndex(index, exact=True)


def _hnsw(vectors: Vectors) -> VectorIndex:
    faiss = load_faiss()
    index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 200
    with _threads(faiss, 1 if len(vectors) <= HNSW_ONE_THREAD_UP_TO else None):
        index.add(vectors)
    return FaissIndex(index, exact=False)


def _ivfpq(vectors: Vectors) -> VectorIndex:
    count, dimension = vectors.shape
    if count < IVFPQ_SMALLEST:
        raise ConfigError(
            f"index 'ivfpq' learns its codes from the passages and needs at least {IVFPQ_SMALLEST} that are not blank, "
            f"found {count}; use index='flat'"
        )
    faiss = load_faiss()
    lists, pieces = ivfpq_shape(count, dimension)
    index = faiss.IndexIVFPQ(
        faiss.IndexFlatIP(dimension), dimension, lists, pieces, IVFPQ_BITS, faiss.METRIC_INNER_PRODUCT
    )
    index.pq.cp.min_points_per_centroid = IVFPQ_SMALLEST // 2**IVFPQ_BITS
    index.train(vectors)
    index.add(vectors)
    index.nprobe = min(lists, max(16, lists // 16))
    return FaissIndex(index, exact=False)


def ivfpq_shape(count: int, dimension: int) -> tuple[int, int]:
    """Return the number of inverted lists and of code pieces for ``count`` vectors."""
    lists = max(1, min(round(4 * math.sqrt(count)), (count - 1) // POINTS_A_CENTROID))
    # Pieces of four numbers where the width allows, wider ones otherwise.
    pieces = next(size for size in range(max(1, dimension // 4), 0, -1) if dimension % size == 0)
    return lists, pieces


INDEXES: dict[str, Callable[[Vectors], VectorIndex]] = {
    "flat": _flat,
    "hnsw": _hnsw,
    "ivfpq": _ivfpq,
    "numpy": _numpy,
}


def check_name(name: str) -> None:
    """Refuse an index name that is not in ``INDEXES``.

    Args:
        name: What was asked for.

    Raises:
        ConfigError: Listing the known names.
    """
    if name not in INDEXES:
        raise ConfigError(f"unknown vector index {name!r}; known: {', '.join(INDEXES)}")


def load_vectors(folder: Path, name: str) -> VectorIndex:
    """Read the index file that ``save`` wrote.

    Args:
        folder: Index folder.
        name: Name of the index, a key of ``INDEXES``.

    Returns:
        The vectors.

    Raises:
        DataError: When the file is missing or damaged.
    """
    check_name(name)
    try:
        if name == "numpy":
            return NumpyIndex(np.load(folder / "vectors.npy", allow_pickle=False))
        return FaissIndex(load_faiss().read_index(str(folder / "index.faiss")), exact=name == "flat")
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"{folder}: the vectors cannot be read ({error}); build the index again") from error


@contextmanager
def _threads(faiss: Any, count: int | None) -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    if count is not None:
        faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
