"""A transformers causal LM as the engine sees it: sequences that grow by segments, and a head for chosen positions."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from utilitune.generator.key_values import KeyValues, Span, empty_cache, gathered


@dataclass(frozen=True)
class Prefix:
    """A token sequence that the model has read.

    Attributes:
        span: Where its keys and values lie.
        feature: Feature after its last token, ``[width]``.
    """

    span: Span
    feature: Tensor


@dataclass
class Rows:
    """Sequences that grow together, one token a step.

    Attributes:
        cache: Keys and values; grows in place.
        mask: ``[rows, slots]``, 1 for real tokens.
        features: After each row's last token, ``[rows, width]``.
    """

    cache: Any
    mask: Tensor
    features: Tensor


class CausalModel:
    """Runs a causal language model.

    The past of a batch is padded on the left and what is new on the right, so that the real tokens of a row are one
    unbroken run of cache slots: distances between slots are distances between tokens, which is what sliding windows
    and the causal mask count by. Positions come from the mask, so that models with learned positions see none of the
    padding.

    Args:
        model: A ``...ForCausalLM`` of transformers, in evaluation mode.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.device = torch.device(model.device)
        self.vocabulary = int(model.get_output_embeddings().weight.shape[0])
        accepted = inspect.signature(model.forward).parameters
        self._positions = "position_ids" in accepted
        # The name of the cache argument depends on the version of transformers.
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"
        self._keeps = "logits_to_keep" in accepted
        # Whether ``step`` gives hidden states (a few values a position) or, for other heads, logits.
        self.gives_states = self._head_is_plain()

    def extend(
        self, past: Sequence[Prefix | None], segments: Sequence[Sequence[int]], keep: int
    ) -> tuple[Tensor, list[Span]]:
        """Run new tokens after sequences that were read before.

        Args:
            past: What each row begins with, ``None`` for nothing.
            segments: New ids of each row, at least one.
            keep: How many last columns of the right-padded batch are wanted.

        Returns:
            Features ``[rows, keep, width]``, and where each row's keys and values lie now.

        Raises:
            ConfigError: When the model keeps a kind of state that cannot be shared between continuations.
        """
        longest = max(map(len, segments))
        ids = torch.tensor([[*new, *[0] * (longest - len(new))] for new in segments], device=self.device)
        real = torch.tensor([[1] * len(new) + [0] * (longest - len(new)) for new in segments], device=self.device)
        cache, mask = self._cache_of(past, longest)
        features = self._step(ids, torch.cat([mask, real], dim=1), cache, keep)
        store = KeyValues.of(cache)
        width = mask.shape[1]
        spans = [
            Span(store, row, width - (before.span.length if before else 0), width + len(new))
            for row, (before, new) in enumerate(zip(past, segments, strict=True))
        ]
        return features, spans

    def rows(self, past: Sequence[Prefix], room: int) -> Rows:
        """Copy sequences into rows with room for more tokens.

        Args:
            past: What each row begins with.
            room: How many tokens may follow.

        Returns:
            The rows.
        """
        cache, mask = self._cache_of(past, room)
        return Rows(cache, mask, torch.stack([each.feature for each in past]))

    def step(self, rows: Rows, tokens: Tensor) -> None:
        """Add one token to every row.

        Args:
            rows: The rows; changed in place.
            tokens: ``[rows]``.
        """
        rows.mask = torch.cat([rows.mask, rows.mask.new_ones(len(tokens), 1)], dim=1)
        rows.features = self._step(tokens.unsqueeze(1), rows.mask, rows.cache, keep=1)[:, 0]

    def logits(self, features: Tensor) -> Tensor:
        """Turn ``[n, width]`` features into ``[n, vocabulary]`` float32 logits."""
        if not self.gives_states:
            return features.float()
        logits: Tensor = self.model.get_output_embeddings()(features)
        return logits.float()

    def _cache_of(self, past: Sequence[Prefix | None], room: int) -> tuple[Any, Tensor]:
        """Return a cache of left-padded pasts with room for more, and its mask."""
        lengths = [each.span.length if each else 0 for each in past]
        width = max(lengths)
        cache = empty_cache(self.model.config, room)
        if width:
            gathered(cache, [each.span if each else None for each in past], room)
        at = torch.arange(width, device=self.device)
        start = width - torch.tensor(lengths, device=self.device).unsqueeze(1)
        return cache, (at >= start).long()

    def _step(self, ids: Tensor, mask: Tensor, cache: Any, keep: int) -> Tensor:
        given: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, self._cache_name: cache, "use_cache": True}
        if self._positions:
            given["position_ids"] = (mask.cumsum(dim=-1) - 1)[:, -ids.shape[1] :]
        if self.gives_states:
            states: Tensor = self.model.base_model(**given).last_hidden_state
            return states[:, -keep:]
        if self._keeps:
            given["logits_to_keep"] = keep
        logits: Tensor = self.model(**given).logits
        return logits[:, -keep:]

    def _head_is_plain(self) -> bool:
        """Tell whether logits are the output embedding of the base model's states and nothing else.

        Some models cap or scale logits afterwards. Known states are put in place of the base model's, and the
        model's logits compared with the plain head's; states are scaled so that logits reach ±50, where a cap shows.
        """
        base = self.model.base_model
        if base is self.model:
            return False
        weight = self.model.get_output_embeddings().weight
        noise = torch.randn(1, 1, weight.shape[1], generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            state = noise.to(self.device, weight.dtype)
            state = state * (50.0 / self.model.get_output_embeddings()(state).float().abs().max())
            state = state.to(weight.dtype)

            def swap(module: Any, inputs: Any, out: Any) -> Any:
                out.last_hidden_state = state
                return out

            handle = base.register_forward_hook(swap)
            try:
                logits = self.model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=self.device)).logits
            finally:
                handle.remove()
            plain = self.model.get_output_embeddings()(state)
        return logits.shape == plain.shape and bool(torch.allclose(logits, plain, rtol=1e-4, atol=1e-3))
