"""A transformers causal LM as the engine sees it: a left-padded step with a cache, and a head for chosen positions."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch
from torch import Tensor

from utilitune.errors import ConfigError


class CausalModel:
    """Runs a causal language model step by step.

    Prompts are padded on the left and continuations on the right, so that the real tokens of a row are one unbroken
    run of cache slots: distances between slots are distances between tokens, which is what sliding windows and the
    causal mask count by. Positions come from the mask, so that models with learned positions see none of the padding.

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

    def prefill(self, ids: Tensor, mask: Tensor, shared: int = 0) -> tuple[Tensor, Any]:
        """Run left-padded prompts.

        Args:
            ids: ``[rows, length]``.
            mask: ``[rows, length]``, 1 for real tokens.
            shared: How many first tokens all rows have in common, below ``length``; they are run once.

        Returns:
            Features of each row's last position, ``[rows, width]``, and the cache.

        Raises:
            ConfigError: When the model keeps a kind of state that cannot be shared between continuations.
        """
        from transformers.cache_utils import DynamicCache

        cache = DynamicCache(config=self.model.config)
        windows = [layer.sliding_window for layer in cache.layers if getattr(layer, "is_sliding", False)]
        # A sliding layer forgets what is further back than its window, and could not be spread over the rows.
        shared = min([shared, *(window - 1 for window in windows)])
        if shared > 0:
            padding = ids.shape[1] - mask.sum(dim=1)
            start = int(padding[0])
            opening = ids[:1, start : start + shared]
            self.step(opening, torch.ones_like(opening), cache, keep=1)
            _check_cache(cache)
            spread(cache, padding)
        features = self.step(ids[:, shared:], mask, cache, keep=1)
        _check_cache(cache)
        return features[:, 0].clone(), cache

    def step(self, ids: Tensor, mask: Tensor, cache: Any, keep: int) -> Tensor:
        """Run new tokens after what the cache holds.

        Args:
            ids: ``[rows, new]``.
            mask: ``[rows, past + new]``.
            cache: Cache of the past; grows in place.
            keep: How many last positions are wanted.

        Returns:
            Features ``[rows, keep, width]`` for ``logits``.
        """
        given: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, self._cache_name: cache, "use_cache": True}
        if self._positions:
            given["position_ids"] = (mask.cumsum(dim=-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        if self.gives_states:
            states: Tensor = self.model.base_model(**given).last_hidden_state
            return states[:, -keep:]
        if self._keeps:
            given["logits_to_keep"] = keep
        logits: Tensor = self.model(**given).logits
        return logits[:, -keep:]

    def logits(self, features: Tensor) -> Tensor:
        """Turn ``[n, width]`` features into ``[n, vocabulary]`` float32 logits."""
        if not self.gives_states:
            return features.float()
        logits: Tensor = self.model.get_output_embeddings()(features)
        return logits.float()

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


def select_rows(cache: Any, rows: Tensor) -> Any:
    """Return a new cache with the given rows (repeats allowed); the old one is untouched.

    Args:
        cache: A dynamic cache.
        rows: ``[n]`` row numbers.

    Returns:
        The new cache; its tensors are copies.
    """
    new = fork(cache)
    for layer in new.layers:
        layer.batch_select_indices(rows)
    return new


def spread(cache: Any, padding: Tensor) -> None:
    """Turn the cache of one unpadded opening into that of left-padded rows which all begin with it, in place.

    Slot ``s`` of a row with ``p`` pads holds what the opening has at ``s - p``: the row stays one unbroken run of
    slots, and the end of the opening that the shift pushes out is run again with the rest of the row.

    Args:
        cache: Cache of ``[1, opening]`` tokens.
        padding: ``[rows]`` pads before each row.
    """
    for layer in cache.layers:
        if not layer.is_initialized:
            continue
        length = layer.keys.shape[-2]
        slots = torch.arange(length, device=padding.device) - padding.unsqueeze(1)
        # Slots before the row begins hold anything: the mask hides them.
        slots = slots.clamp(min=0)
        layer.keys = layer.keys[0][:, slots].transpose(0, 1).contiguous()
        layer.values = layer.values[0][:, slots].transpose(0, 1).contiguous()


def fork(cache: Any) -> Any:
    """Return a cache that can grow while the old one stays: growing replaces tensors, never writes to them."""
    new = copy.copy(cache)
    new.layers = [copy.copy(layer) for layer in cache.layers]
    return new


def _check_cache(cache: Any) -> None:
    """Refuse state that ``fork`` cannot share: anything but plain growing keys and values."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    kinds = {type(layer) for layer in getattr(cache, "layers", [])}
    if not kinds or kinds - {DynamicLayer, DynamicSlidingWindowLayer}:
        found = sorted(kind.__name__ for kind in kinds) or [type(cache).__name__]
        raise ConfigError(
            f"this model keeps state of kind {found}; only attention caches (full or sliding window) are supported: "
            "choose a model without recurrent layers"
        )
