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
    "build_groups": "utilitune.rerank.group_building",
    "Relevance": "utilitune.rerank.relevance",
    "read_groups": "utilitune.rerank.group_files",
    "write_groups": "utilitune.rerank.group_files",
    "RESCALES": "utilitune.rerank.rescale",
    "LOSSES": "utilitune.rerank.losses",
    "RerankerConfig": "utilitune.rerank.config",
    "DecoderConfig": "utilitune.rerank.decoder_config",
    "RetrieverConfig": "utilitune.rerank.student.config",
    "train_retriever": "utilitune.rerank.student.training",
    "TrainingReport": "utilitune.rerank.report",
    "train_reranker": "utilitune.rerank.training",
    "Calibration": "utilitune.rerank.calibration",
    "calibrate": "utilitune.rerank.calibration",
    "UtilityReranker": "utilitune.rerank.reranker",
    "export_reranker": "utilitune.rerank.export_onnx",
}

__all__ = [*_HOME]

if TYPE_CHECKING:
    from utilitune.rerank.calibration import Calibration as Calibration
    from utilitune.rerank.calibration import calibrate as calibrate
    from utilitune.rerank.config import RerankerConfig as RerankerConfig
    from utilitune.rerank.decoder_config import DecoderConfig as DecoderConfig
    from utilitune.rerank.export_onnx import export_reranker as export_reranker
    from utilitune.rerank.group_building import build_groups as build_groups
    from utilitune.rerank.group_files import read_groups as read_groups
    from utilitune.rerank.group_files import write_groups as write_groups
    from utilitune.rerank.groups import Group as Group
    from utilitune.rerank.groups import Groups as Groups
    from utilitune.rerank.losses import LOSSES as LOSSES
    from utilitune.rerank.relevance import Relevance as Relevance
    from utilitune.rerank.report import TrainingReport as TrainingReport
    from utilitune.rerank.reranker import UtilityReranker as UtilityReranker
    from utilitune.rerank.rescale import RESCALES as RESCALES
    from utilitune.rerank.student.config import RetrieverConfig as RetrieverConfig
    from utilitune.rerank.student.training import train_retriever as train_retriever
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
