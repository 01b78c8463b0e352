"""Exact log-probabilities and entropies over the full vocabulary, a few positions at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Logits held at once: 2^24 float32 values are 64 MiB, whatever the vocabulary.
MAX_LOGITS = 1 << 24
# exp(-200) is 0 in float32, so clamping there changes no sum and keeps 0 * -inf from becoming NaN.
_FLOOR = -200.0


def logit_stats(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ln p(target) and the entropy of each row at temperature 1.

    H = ln Z - sum_v p_v z_v with z shifted by its maximum, in float32: the shift keeps the terms small, so that
    sharp distributions keep their digits.

    Args:
        logits: ``[rows, vocabulary]``, any float type.
        targets: ``[rows]`` token ids.

    Returns:
        Log-probabilities and entropies, each ``[rows]`` float32, in nats; entropies lie in [0, ln vocabulary].
    """
    z = logits.float()
    z = z - z.max(dim=-1, keepdim=True).values
    chosen = z.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    z.clamp_(min=_FLOOR)
    weights = z.exp()
    total = weights.sum(dim=-1)
    entropy = total.log() - weights.mul_(z).sum(dim=-1) / total
    return chosen - total.log(), entropy.clamp_(min=0.0)


def feature_stats(
    head: Callable[[Tensor], Tensor], features: Tensor, targets: Tensor, vocabulary: int
) -> tuple[Tensor, Tensor]:
    """Run positions through the language-model head in slices and reduce each slice at once.

    Args:
        head: Maps ``[n, width]`` features to ``[n, vocabulary]`` logits.
        features: ``[positions, width]``.
        targets: ``[positions]`` token ids.
        vocabulary: Size of the vocabulary.

    Returns:
        Log-probabilities and entropies, each ``[positions]`` float32.
    """
    size = max(1, MAX_LOGITS // vocabulary)
    parts = [
        logit_stats(head(features[start : start + size]), targets[start : start + size])
        for start in range(0, len(targets), size)
    ]
    return torch.cat([logprobs for logprobs, _ in parts]), torch.cat([entropies for _, entropies in parts])
