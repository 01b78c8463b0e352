"""Train the retrieval side of RAG with the generator's own utility as supervision.

Public names are imported on first use, so that ``import utilitune`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module that defines it.
_HOME = {
    "load_dataset": "utilitune.records",
    "load_generator": "utilitune.generator",
    "Bm25Retriever": "utilitune.retrieval",
    "DenseRetriever": "utilitune.retrieval",
    "fuse": "utilitune.retrieval",
    "label": "utilitune.scoring",
    "build_pairs": "utilitune.rewrite",
    "Rewriter": "utilitune.rewrite",
    "UtilityReranker": "utilitune.rerank",
    "evaluate": "utilitune.evaluation",
    "Recipe": "utilitune.recipe",
}

__all__ = [*_HOME, "__version__"]

if TYPE_CHECKING:
    from utilitune.evaluation import evaluate as evaluate
    from utilitune.generator import load_generator as load_generator
    from utilitune.recipe import Recipe as Recipe
    from utilitune.records import load_dataset as load_dataset
    from utilitune.rerank import UtilityReranker as UtilityReranker
    from utilitune.retrieval import Bm25Retriever as Bm25Retriever
    from utilitune.retrieval import DenseRetriever as DenseRetriever
    from utilitune.retrieval import fuse as fuse
    from utilitune.rewrite import Rewriter as Rewriter
    from utilitune.rewrite import build_pairs as build_pairs
    from utilitune.scoring import label as label


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'utilitune' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
