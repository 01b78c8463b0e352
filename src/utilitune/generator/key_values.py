"""Keys and values of what a model has read: kept by batch, shared by what follows, grown in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from utilitune.errors import ConfigError


@dataclass(frozen=True, eq=False)
class KeyValues:
    """Keys and values of a batch that was run.

    Attributes:
        layers: Keys and values a layer, each ``[rows, heads, slots, size]``.
    """

    layers: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def of(cls, cache: Any) -> KeyValues:
        """Take them from a cache that was run."""
        return cls(tuple((layer.keys, layer.values) for layer in cache.layers))


@dataclass(frozen=True)
class Span:
    """The slots of one sequence.

    Attributes:
        store: Keys and values of its batch.
        row: Its row.
        start: First slot.
        end: Slot after the last one.
    """

    store: KeyValues
    row: int
    start: int
    end: int

    @property
    def length(self) -> int:
        """Tokens in it."""
        return self.end - self.start


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """A layer with room for a known number of tokens: new ones are written behind the others, nothing is copied.

    Sliding layers use it too. They keep more than their window then, and the mask hides what lies outside of it; in
    return, any sequence can be shared up to any token.

    Args:
        room: How many tokens will come.
    """

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room
        self._used = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def fill(self, keys: Tensor, values: Tensor, used: int) -> None:
        """Take tensors of which the first ``used`` slots are filled."""
        self._keys, self._values, self._used = keys, values, used
        self._show()

    def select(self, rows: Tensor) -> None:
        """Keep the given rows."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[rows], self._values[rows]
            self._show()

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write new keys and values, ``[rows, heads, new, size]``, and return all."""
        start, self._used = self._used, self._used + key_states.shape[-2]
        if self._keys is None or self._values is None:
            if self._used == self._room:
                self._keys, self._values = key_states, value_states
                return self._show()
            self._keys = key_states.new_empty(*key_states.shape[:2], self._room, key_states.shape[-1])
            self._values = value_states.new_empty(*value_states.shape[:2], self._room, value_states.shape[-1])
        self._keys[:, :, start : self._used] = key_states
        self._values[:, :, start : self._used] = value_states
        return self._show()

    def _show(self) -> tuple[Tensor, Tensor]:
        if self._keys is None or self._values is None:
            raise RuntimeError("an empty layer has nothing to show")
        self.keys, self.values = self._keys[:, :, : self._used], self._values[:, :, : self._used]
        self.dtype, self.device, self.is_initialized = self.keys.dtype, self.keys.device, True
        return self.keys, self.values


def empty_cache(config: Any, room: int) -> Any:
    """Return an empty cache for a model with room for ``room`` tokens.

    Args:
        config: The model's config.
        room: Tokens.

    Returns:
        A ``DynamicCache`` of ``RoomyLayer``s.

    Raises:
        ConfigError: For a model that keeps any other state than keys and values, such as a recurrent one.
    """
    cache = DynamicCache(config=config)
    kinds = {type(layer) for layer in cache.layers}
    if not kinds or kinds - {DynamicLayer, DynamicSlidingWindowLayer}:
        found = sorted(kind.__name__ for kind in kinds) or [type(cache).__name__]
        raise ConfigError(
            f"this model keeps state of kind {found}; only attention caches (full or sliding window) are supported: "
            "choose a model without recurrent layers"
        )
    cache.layers = [RoomyLayer(room) for _ in cache.layers]
    return cache


def gathered(cache: Any, spans: Sequence[Span | None], room: int) -> None:
    """Copy sequences, right-aligned, into an empty cache.

    Args:
        cache: From ``empty_cache``.
        spans: One a row, ``None`` for an empty row; at least one is not empty.
        room: How many slots to leave behind them.
    """
    width = max(span.length for span in spans if span)
    by_store: dict[int, tuple[KeyValues, list[int]]] = {}
    for row, span in enumerate(spans):
        if span:
            by_store.setdefault(id(span.store), (span.store, []))[1].append(row)
    plans = []
    for store, rows in by_store.values():
        device = store.layers[0][0].device
        chosen = [span for row in rows if (span := spans[row])]
        start, end, source = torch.tensor([(s.start, s.end, s.row) for s in chosen], device=device).T
        # Slots before a row begins hold anything finite: the mask hides them.
        slots = (torch.arange(-width, 0, device=device) + end.unsqueeze(1)).maximum(start.unsqueeze(1))
        plans.append((store, torch.tensor(rows, device=device), source.unsqueeze(1), slots))
    everywhere = sum(len(rows) for _, rows in by_store.values()) == len(spans)
    for number, layer in enumerate(cache.layers):
        pair = []
        for which in (0, 1):
            like = plans[0][0].layers[number][which]
            shape = (len(spans), like.shape[1], width + room, like.shape[3])
            room_for = like.new_empty(shape) if everywhere else like.new_zeros(shape)
            for store, places, source, slots in plans:
                taken = store.layers[number][which][source, :, slots].transpose(1, 2)
                if len(plans) == 1 and everywhere:
                    # A plain copy is much faster than one by row numbers.
                    room_for[:, :, :width] = taken
                else:
                    room_for[places, :, :width] = taken
            pair.append(room_for)
        layer.fill(pair[0], pair[1], width)


def select_rows(cache: Any, rows: Tensor) -> None:
    """Keep some rows of a growing cache, in place.

    Args:
        cache: From ``empty_cache``.
        rows: ``[n]`` row numbers.
    """
    for layer in cache.layers:
        layer.select(rows)
