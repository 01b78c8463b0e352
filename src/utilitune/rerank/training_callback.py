"""Ties the trainer to our progress bar and dev check; stops at a loss that is not a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from utilitune.progress import Bar


class TrainingCallback(TrainerCallback):  # type: ignore[misc]
    """Moves the bar, collects the loss of an epoch, calls back at its end."""

    def __init__(self, bar: Bar, after_epoch: Callable[[int, float | None], None]) -> None:
        """Keep the bar and what to call with (epoch, mean loss)."""
        self.bar = bar
        self.after_epoch = after_epoch
        self.losses: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count a step."""
        del args, state, control
        self.bar.advance()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> Any:
        """Note the loss of a step; stop when it is not finite, since nothing after it can be."""
        del args, state
        if logs and "loss" in logs:
            self.losses.append(float(logs["loss"]))
            if not math.isfinite(self.losses[-1]):
                control.should_training_stop = True
        return control

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Hand on the epoch's mean loss."""
        del args, control
        finite = [loss for loss in self.losses if math.isfinite(loss)]
        mean = sum(finite) / len(finite) if finite else None
        self.losses.clear()
        self.after_epoch(round(state.epoch), mean)
