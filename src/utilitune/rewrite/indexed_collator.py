"""A collator that remembers which rows a batch holds. Importing this loads torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class IndexedCollator:
    """Another collator, plus which rows the batch holds (``pair_index``)."""

    inner: Callable[[list[dict[str, Any]]], dict[str, Any]]

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Collate; the index is a tensor so that every loader passes it through."""
        batch = self.inner([dict(example) for example in examples])
        batch["pair_index"] = torch.tensor([example["pair_index"] for example in examples])
        return batch
