"""Choosing the next token: greedy, or by inverse CDF from uniforms that belong to the row alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Rows drawn at once: double-precision cumulative sums of a 262k vocabulary take 2 MiB a row.
_ROWS = 16
# Likeliest tokens that are looked at first: sorting a whole vocabulary is slow and hardly ever needed. Where they do
# not hold the mass, eight times as many are looked at.
_NUCLEUS = 128


@dataclass(frozen=True)
class Sampler:
    """How one answer is drawn.

    Attributes:
        temperature: > 0.
        top_p: Nucleus mass in (0, 1].
        seed: Seed of the caller.
        sample: Number of the answer under its prompt.
    """

    temperature: float
    top_p: float
    seed: int
    sample: int

    def uniforms(self, prompt_ids: Sequence[int], length: int) -> Tensor:
        """Draw the row's uniforms from a stream seeded by seed, prompt and answer number, never by batch mates."""
        text = f"{self.seed}|{self.sample}|{','.join(map(str, prompt_ids))}"
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
        return torch.rand(length, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def draw(logits: Tensor, uniforms: Tensor, temperature: Tensor, top_p: Tensor) -> Tensor:
    """Draw one token a row by inverse CDF: in vocabulary order, or by likelihood where there is a nucleus.

    Args:
        logits: ``[rows, vocabulary]``.
        uniforms: ``[rows]`` in [0, 1).
        temperature: ``[rows]``, > 0.
        top_p: ``[rows]`` in (0, 1]; the nucleus is the smallest set of likeliest tokens with at least this mass.

    Returns:
        ``[rows]`` token ids.
    """
    tokens = torch.empty(len(logits), dtype=torch.long, device=logits.device)
    for nucleus, pick in ((False, _pick_any), (True, _pick_nucleus)):
        # A row's rule hangs on its own mass alone: sorting a large vocabulary is slow and mostly not needed.
        wanted = ((top_p < 1) == nucleus).nonzero()[:, 0]
        for start in range(0, len(wanted), _ROWS):
            rows = wanted[start : start + _ROWS]
            weights = (logits[rows].float() / temperature[rows].float().unsqueeze(-1)).softmax(dim=-1)
            tokens[rows] = pick(weights, uniforms[rows].double().unsqueeze(-1), top_p[rows].double().unsqueeze(-1))
    return tokens


def _pick_any(weights: Tensor, uniforms: Tensor, top_p: Tensor) -> Tensor:
    cumulative = weights.double().cumsum(dim=-1)
    place = torch.searchsorted(cumulative, uniforms * cumulative[:, -1:], right=True)
    return place.squeeze(-1).clamp(max=weights.shape[-1] - 1)


def _pick_nucleus(weights: Tensor, uniforms: Tensor, top_p: Tensor, among: int = _NUCLEUS) -> Tensor:
    """Pick among the likeliest tokens; where ``among`` of them do not hold the mass, among more."""
    total = weights.sum(dim=-1, keepdim=True, dtype=torch.float64)
    among = min(among, weights.shape[-1])
    ordered, ids = weights.topk(among, dim=-1)
    cumulative = ordered.double().cumsum(dim=-1)
    kept = (cumulative < top_p * total - 1e-9).sum(dim=-1, keepdim=True)
    short = (kept == among).squeeze(-1)
    kept = kept.clamp(max=among - 1)
    place = torch.searchsorted(cumulative, uniforms * cumulative.gather(-1, kept), right=True)
    tokens = ids.gather(-1, torch.minimum(place, kept)).squeeze(-1)
    if among < weights.shape[-1] and bool(short.any()):
        tokens[short] = _pick_nucleus(weights[short], uniforms[short], top_p[short], 8 * among)
    return tokens
