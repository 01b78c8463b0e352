"""Listwise distillation: the scores' distribution over a query's candidates follows the utilities'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


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


class ListwiseKlLoss(nn.Module):
    """The same for ``CrossEncoderTrainer``.

    | inputs | labels | model outputs |
    |---|---|---|
    | (query, [passage 1, …, passage n]) | [target 1, …, target n] | 1 |

    n may differ from query to query. The scores are raw logits in fp32.
    """

    def __init__(self, model: Any, target_temperature: float = 1.0, score_temperature: float = 1.0) -> None:
        """Wrap a ``CrossEncoder`` with one output."""
        super().__init__()
        if model.num_labels != 1:
            raise ValueError(f"the model has {model.num_labels} outputs; listwise losses need 1")
        if not (target_temperature > 0 and score_temperature > 0):
            raise ValueError(f"temperatures must be > 0, got {target_temperature} and {score_temperature}")
        self.model = model
        self.target_temperature = target_temperature
        self.score_temperature = score_temperature

    def forward(
        self,
        inputs: tuple[Sequence[str], Sequence[Sequence[str]]],
        labels: Sequence[Tensor],
        prompt: str | None = None,
        task: str | None = None,
    ) -> Tensor:
        """Score all pairs of the batch and compare the distributions.

        Args:
            inputs: Queries, and one list of passages a query.
            labels: One tensor of targets a query.
            prompt: Passed on to the model.
            task: Passed on to the model.

        Returns:
            A scalar.

        Raises:
            ValueError: If passages and labels of a query differ in number.
        """
        queries, lists = inputs
        sizes = [len(passages) for passages in lists]
        if sizes != [len(row) for row in labels]:
            raise ValueError(f"passages a query {sizes} and labels a query {[len(row) for row in labels]} differ")
        pairs = [(query, passage) for query, passages in zip(queries, lists, strict=True) for passage in passages]
        features = self.model.preprocess(pairs, prompt=prompt, task=task)
        device = self.model.device
        features = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in features.items()}
        flat = self.model(features)["scores"].view(-1).float()
        mask = torch.arange(max(sizes), device=device)[None, :] < torch.tensor(sizes, device=device)[:, None]
        # Row-major order of the mask is the order of the pairs.
        scores = torch.zeros(mask.shape, device=device).masked_scatter(mask, flat)
        targets = torch.zeros(mask.shape, device=device).masked_scatter(
            mask, torch.cat([row.float().to(device) for row in labels])
        )
        return listwise_kl(scores, targets, mask, self.target_temperature, self.score_temperature)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the temperatures, for model cards."""
        return {"target_temperature": self.target_temperature, "score_temperature": self.score_temperature}
