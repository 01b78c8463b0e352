"""From utility labels to a reranker: training groups, losses, training, the trained reranker.

Names are imported on first use: groups need no torch, training and prediction do.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Public name -> module that defines it.
_HOME = {
    "Group": "utilitune.rerank.groups",
    "Groups": "utilitune.rerank.groups",
    "build_groups": "utilitune.rerank.groups",
    "read_groups": "utilitune.rerank.group_files",
    "write_groups": "utilitune.rerank.group_files",
    "RESCALES": "utilitune.rerank.rescale",
    "LOSSES": "utilitune.rerank.losses",
    "RerankerConfig": "utilitune.rerank.config",
    "TrainingReport": "utilitune.rerank.report",
    "train_reranker": "utilitune.rerank.training",
    "UtilityReranker": "utilitune.rerank.reranker",
}

__all__ = [*_HOME]

if TYPE_CHECKING:
    from utilitune.rerank.config import RerankerConfig as RerankerConfig
    from utilitune.rerank.group_files import read_groups as read_groups
    from utilitune.rerank.group_files import write_groups as write_groups
    from utilitune.rerank.groups import Group as Group
    from utilitune.rerank.groups import Groups as Groups
    from utilitune.rerank.groups import build_groups as build_groups
    from utilitune.rerank.losses import LOSSES as LOSSES
    from utilitune.rerank.report import TrainingReport as TrainingReport
    from utilitune.rerank.reranker import UtilityReranker as UtilityReranker
    from utilitune.rerank.rescale import RESCALES as RESCALES
    from utilitune.rerank.training import train_reranker as train_reranker


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'utilitune.rerank' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
