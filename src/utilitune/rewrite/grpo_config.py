"""Settings of learning from a live reward."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from utilitune.rewrite.training_config import TrainingConfig


class GrpoConfig(TrainingConfig, frozen=True):
    """Group relative policy optimisation (arXiv 2402.03300); a row is a question, sampled ``generations`` times.

    Attributes:
        lr: Peak learning rate; the gradient is noisier than that of pairs.
        epochs: Passes over the questions; each is sampled anew.
        beta: Weight of the divergence from where the policy starts; 0 needs no reference.
        generations: Rewrites a question, >= 2; their mean is the baseline.
        temperature: Sampling temperature.
        top_p: Nucleus mass in (0, 1].
        scale_rewards: Divide the advantages by the standard deviation of the ``group``, of the ``batch``, or not.
        epsilon: Clipping of the probability ratio.
    """

    lr: float = Field(default=2e-5, gt=0)
    epochs: float = Field(default=1.0, gt=0)
    beta: float = Field(default=0.0, ge=0)
    generations: int = Field(default=6, ge=2)
    temperature: float = Field(default=0.9, gt=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    scale_rewards: Literal["group", "batch", "none"] = "group"
    epsilon: float = Field(default=0.2, gt=0)

    @model_validator(mode="after")
    def _room_for_a_prompt(self) -> GrpoConfig:
        if self.max_new_tokens >= self.max_length:
            raise ValueError(f"max_new_tokens={self.max_new_tokens} leaves no room in max_length={self.max_length}")
        return self
