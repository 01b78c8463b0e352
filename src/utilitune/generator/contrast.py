"""The contrast of two prompts: what a text's tokens are worth when one prompt's logits count against the other's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from utilitune.generator.entropy import MAX_LOGITS, logit_stats


@dataclass
class ContrastWork:
    """A text to be scored under a contrast; results are filled in.

    Attributes:
        ids: Ids of the prompt that counts for.
        other: Ids of the prompt that counts against.
        text: Ids of the text, at least one.
        alpha: Weight of the other prompt.
        logprobs: Contrasted log-probabilities, one a token.
        entropies: Entropies of the contrasted distributions, one a token.
    """

    ids: tuple[int, ...]
    other: tuple[int, ...]
    text: tuple[int, ...]
    alpha: float
    logprobs: tuple[float, ...] = ()
    entropies: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """Length of the longer prompt."""
        return max(len(self.ids), len(self.other))


def contrast_stats(
    head: Callable[[Tensor], Tensor],
    features: tuple[Tensor, Tensor],
    targets: Tensor,
    alpha: Tensor,
    vocabulary: int,
) -> tuple[Tensor, Tensor]:
    """Compute ln p(target) and entropy under ``softmax((1 + alpha) z - alpha z')``, a slice of positions at a time.

    The normaliser runs over the vocabulary, so it needs both prompts' logits at every position: log-probabilities of
    the tokens alone cannot give it.

    Args:
        head: Maps ``[n, width]`` features to ``[n, vocabulary]`` logits.
        features: Of the prompt and of the other one, each ``[positions, width]``.
        targets: ``[positions]`` token ids.
        alpha: ``[positions]``.
        vocabulary: Size of the vocabulary.

    Returns:
        Log-probabilities and entropies, each ``[positions]`` float32, in nats.
    """
    size = max(1, MAX_LOGITS // (2 * vocabulary))
    parts = []
    for start in range(0, len(targets), size):
        part = slice(start, start + size)
        ours, theirs = head(features[0][part]).float(), head(features[1][part]).float()
        # Equal prompts give equal logits, and then exactly the plain ones.
        parts.append(logit_stats(ours + alpha[part].unsqueeze(-1) * (ours - theirs), targets[part]))
    return torch.cat([logprobs for logprobs, _ in parts]), torch.cat([entropies for _, entropies in parts])
