"""The dense retriever as a student: an encoder tuned on utilities, or on a reranker's scores.

Names are imported on first use: settings need no torch, training does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Public name -> module that defines it.
_HOME = {
    "RetrieverConfig": "utilitune.rerank.student.config",
    "RetrieverReport": "utilitune.rerank.student.report",
    "STUDENT_LOSSES": "utilitune.rerank.student.config",
    "groups_of_run": "utilitune.rerank.student.teacher",
    "taught": "utilitune.rerank.student.teacher",
    "train_retriever": "utilitune.rerank.student.training",
}

__all__ = [*_HOME]

if TYPE_CHECKING:
    from utilitune.rerank.student.config import STUDENT_LOSSES as STUDENT_LOSSES
    from utilitune.rerank.student.config import RetrieverConfig as RetrieverConfig
    from utilitune.rerank.student.report import RetrieverReport as RetrieverReport
    from utilitune.rerank.student.teacher import groups_of_run as groups_of_run
    from utilitune.rerank.student.teacher import taught as taught
    from utilitune.rerank.student.training import train_retriever as train_retriever


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'utilitune.rerank.student' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
