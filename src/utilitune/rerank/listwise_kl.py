"""Listwise distillation: the scores' distribution over a query's candidates follows the utilities'."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from utilitune.rerank.listwise_loss import ListwiseLoss


def listwise_kl(
    scores: Tensor,
    targets: Tensor,
    mask: Tensor,
    target_temperature: float = 1.0,
    score_temperature: float = 1.0,
) -> Tensor:
    """Return the mean over queries of KL(P ‖ Q), P = softmax(targets/tau_t), Q = softmax(scores/tau_s).

    ``KL = sum_i P_i (ln P_i - ln Q_i)`` >= 0, in nats; 0 when the distributions agree. The mean is over
    queries, not over elements: a query counts once whatever its number of candidates.

    Args:
        scores: Shape ``(queries, candidates)``, logits.
        targets: Same shape, any finite numbers.
        mask: Same shape, bool; ``False`` marks padding. Every query has at least one candidate.
        target_temperature: tau_t > 0.
        score_temperature: tau_s > 0.

    Returns:
        A scalar.
    """
    padded = ~mask
    log_p = torch.log_softmax((targets.float() / target_temperature).masked_fill(padded, float("-inf")), dim=1)
    log_q = torch.log_softmax((scores.float() / score_temperature).masked_fill(padded, float("-inf")), dim=1)
    # At padding both are -inf and their difference is NaN; it must not reach the sum nor its gradient.
    terms = log_p.masked_fill(padded, 0.0).exp() * (log_p.masked_fill(padded, 0.0) - log_q.masked_fill(padded, 0.0))
    return terms.masked_fill(padded, 0.0).sum(dim=1).mean()


class ListwiseKlLoss(ListwiseLoss):
    """The same for ``CrossEncoderTrainer``; inputs and labels as in ``ListwiseLoss``."""

    def __init__(self, model: Any, target_temperature: float = 1.0, score_temperature: float = 1.0) -> None:
        """Wrap a ``CrossEncoder`` with one output."""
        super().__init__(model)
        if not (target_temperature > 0 and score_temperature > 0):
            raise ValueError(f"temperatures must be > 0, got {target_temperature} and {score_temperature}")
        self.target_temperature = target_temperature
        self.score_temperature = score_temperature

    def value(self, scores: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """Compare the distributions; shapes as in ``listwise_kl``."""
        return listwise_kl(scores, targets, mask, self.target_temperature, self.score_temperature)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the temperatures, for model cards."""
        return {"target_temperature": self.target_temperature, "score_temperature": self.score_temperature}
