"""Retrievers: BM25, dense over FAISS, and fusion; index folders that know what made them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Public name -> module that defines it; imported on first use, so that BM25 costs no FAISS and no torch.
_HOME = {
    "Retriever": "protocol",
    "Bm25Retriever": "bm25",
    "DenseRetriever": "dense",
    "Tokeniser": "tokenise",
    "corpus_hash": "index_folder",
    "fuse": "fusion",
    "load_index": "loading",
}

__all__ = [*_HOME]

if TYPE_CHECKING:
    from utilitune.retrieval.bm25 import Bm25Retriever as Bm25Retriever
    from utilitune.retrieval.dense import DenseRetriever as DenseRetriever
    from utilitune.retrieval.fusion import fuse as fuse
    from utilitune.retrieval.index_folder import corpus_hash as corpus_hash
    from utilitune.retrieval.loading import load_index as load_index
    from utilitune.retrieval.protocol import Retriever as Retriever
    from utilitune.retrieval.tokenise import Tokeniser as Tokeniser


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'utilitune.retrieval' has no attribute {name!r}")
    value = getattr(import_module(f"utilitune.retrieval.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
