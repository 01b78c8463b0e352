"""A model known by its configuration, whose weights are read when the first number is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class UnreadModel:
    """Takes a model's place in a generator: identity, tokens and the store need none of its weights.

    Attributes:
        config: Its transformers configuration.
        dtype: Its arithmetic type, as a ``torch.dtype``.
        read: Reads the weights and returns the ``...ForCausalLM``; called once, at the first forward pass.
    """

    config: Any
    dtype: Any
    read: Callable[[], Any]
