"""Settings of preference training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from utilitune.rewrite.training_config import TrainingConfig


class DpoConfig(TrainingConfig, frozen=True):
    """Direct preference optimisation (arXiv 2305.18290), sigmoid loss; a row is a pair of two sequences.

    Attributes:
        beta: Strength of the pull towards the reference, > 0.
        reference: What the policy is compared with: where it ``start``s, or the untuned ``base``. Without an
            adapter to start from the two are the same.
    """

    beta: float = Field(default=0.1, gt=0)
    reference: Literal["start", "base"] = "start"
