"""Utilities: what a passage is worth to the generator, and the loop that labels a whole run with them.

Names are imported on first use; nothing here imports torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Public name -> module that defines it.
_HOME = {
    "Contrast": "utilitune.scoring.protocol",
    "Draw": "utilitune.scoring.protocol",
    "Force": "utilitune.scoring.protocol",
    "Greedy": "utilitune.scoring.protocol",
    "Request": "utilitune.scoring.protocol",
    "Rescore": "utilitune.scoring.protocol",
    "Responses": "utilitune.scoring.protocol",
    "Sample": "utilitune.scoring.protocol",
    "Utility": "utilitune.scoring.protocol",
    "Value": "utilitune.scoring.protocol",
    "Description": "utilitune.scoring.description",
    "describe": "utilitune.scoring.description",
    "DEFAULT_UTILITY": "utilitune.scoring.registry",
    "UTILITIES": "utilitune.scoring.registry",
    "make_utility": "utilitune.scoring.registry",
    "LabelStore": "utilitune.scoring.store",
    "Failure": "utilitune.scoring.failure",
    "Responder": "utilitune.scoring.responder",
    "label": "utilitune.scoring.labelling",
    "label_file": "utilitune.scoring.labelling",
    "label_sets": "utilitune.scoring.labelling",
}

__all__ = [
    "DEFAULT_UTILITY",
    "UTILITIES",
    "Contrast",
    "Description",
    "Draw",
    "Failure",
    "Force",
    "Greedy",
    "LabelStore",
    "Request",
    "Rescore",
    "Responder",
    "Responses",
    "Sample",
    "Utility",
    "Value",
    "describe",
    "label",
    "label_file",
    "label_sets",
    "make_utility",
]

if TYPE_CHECKING:
    from utilitune.scoring.description import Description, describe
    from utilitune.scoring.failure import Failure
    from utilitune.scoring.labelling import label, label_file, label_sets
    from utilitune.scoring.protocol import (
        Contrast,
        Draw,
        Force,
        Greedy,
        Request,
        Rescore,
        Responses,
        Sample,
        Utility,
        Value,
    )
    from utilitune.scoring.registry import DEFAULT_UTILITY, UTILITIES, make_utility
    from utilitune.scoring.responder import Responder
    from utilitune.scoring.store import LabelStore


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
