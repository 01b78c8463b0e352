"""Our progress bar inside a transformers trainer. Importing this loads transformers."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from utilitune.progress import Bar


class BarCallback(TrainerCallback):  # type: ignore[misc]
    """Advances our progress bar."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Count the steps of the checkpoint that a resumed training goes on from, which cost nothing."""
        self.bar.advance(state.global_step - self.bar.done, free=True)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Advance to the global step."""
        self.bar.advance(state.global_step - self.bar.done)
