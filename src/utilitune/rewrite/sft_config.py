"""Settings of imitation."""

from __future__ import annotations

from pydantic import Field

from utilitune.rewrite.training_config import TrainingConfig


class SftConfig(TrainingConfig, frozen=True):
    """Likelihood of the best rewrites, the prompt's tokens left out of the loss; a row is a rewrite.

    Attributes:
        per_query: Rewrites a question, the best first.
    """

    per_query: int = Field(default=1, ge=1)
