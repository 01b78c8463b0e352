"""What one epoch of a training came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Measure = TypeVar("Measure")


@dataclass(frozen=True)
class EpochReport(Generic[Measure]):
    """One epoch; epoch 0 is the untrained model.

    Attributes:
        epoch: Number of passes done.
        dev: Measured on the held-out groups after it.
        loss: Mean training loss of the epoch, ``None`` for epoch 0.
    """

    epoch: int
    dev: Measure
    loss: float | None = None
