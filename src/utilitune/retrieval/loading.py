"""Any index folder to its retriever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from utilitune.errors import DataError
from utilitune.retrieval import bm25, dense
from utilitune.retrieval.index_folder import read_manifest
from utilitune.retrieval.protocol import Retriever

LOADERS: dict[str, Callable[[Path | str], Retriever]] = {
    bm25.KIND: bm25.Bm25Retriever.load,
    dense.KIND: dense.DenseRetriever.load,
}


def load_index(folder: Path | str) -> Retriever:
    """Load the retriever of an index folder, whichever kind its manifest names.

    Args:
        folder: Index folder.

    Returns:
        The retriever.

    Raises:
        DataError: When the folder is not an index, is damaged, or its kind is unknown.
        ConfigError: When a dense index's encoder cannot be found or is another one than built it.
    """
    kind = str(read_manifest(folder).get("kind"))
    if kind not in LOADERS:
        raise DataError(f"{folder} is an index of unknown kind {kind!r}; known: {', '.join(LOADERS)}")
    return LOADERS[kind](folder)
