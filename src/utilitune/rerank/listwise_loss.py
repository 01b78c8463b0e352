"""What our losses over whole candidate lists share: score all pairs of the batch, pad, hand over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class ListwiseLoss(nn.Module):
    """Base of losses for ``CrossEncoderTrainer``; a subclass writes ``value``.

    | inputs | labels | model outputs |
    |---|---|---|
    | (query, [passage 1, …, passage n]) | [target 1, …, target n] | 1 |

    n may differ from query to query. The scores are raw logits in fp32.
    """

    def __init__(self, model: Any) -> None:
        """Wrap a ``CrossEncoder`` with one output."""
        super().__init__()
        if model.num_labels != 1:
            raise ValueError(f"the model has {model.num_labels} outputs; listwise losses need 1")
        self.model = model

    def value(self, scores: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """Return the loss of padded lists.

        Args:
            scores: Shape ``(queries, candidates)``, logits.
            targets: Same shape.
            mask: Same shape, bool; ``False`` marks padding.

        Returns:
            A scalar.

        Raises:
            NotImplementedError: Here.
        """
        raise NotImplementedError

    def forward(
        self,
        inputs: tuple[Sequence[str], Sequence[Sequence[str]]],
        labels: Sequence[Tensor],
        prompt: str | None = None,
        task: str | None = None,
    ) -> Tensor:
        """Score all pairs of the batch and compare them with their targets.

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
        return self.value(scores, targets, mask)
