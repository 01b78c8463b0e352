"""TRL's DPO trainer, with checks that turn a silent failure into a message. Importing this loads torch and TRL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PrinterCallback, TrainerCallback
from trl import DPOTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference

from utilitune.errors import DataError, UtilituneError
from utilitune.progress import Bar
from utilitune.rewrite.completion_scores import Sharing, speed_up

STEP_ZERO_TOLERANCE = 1e-3


@dataclass
class IndexedCollator:
    """TRL's collator, plus which pairs the batch holds (``pair_index``)."""

    inner: DataCollatorForPreference

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Collate; the index is a tensor so that every loader passes it through."""
        batch: dict[str, Any] = self.inner([dict(example) for example in examples])
        batch["pair_index"] = torch.tensor([example["pair_index"] for example in examples])
        return batch


class CheckedDPOTrainer(DPOTrainer):  # type: ignore[misc]
    """Checks that the first loss is ln 2 and that every loss is finite, naming the questions of the batch."""

    def __init__(self, *, query_ids: Sequence[str], **options: Any) -> None:
        """Keep ``query_ids`` by ``pair_index``; ``options`` are those of TRL's trainer."""
        self.query_ids = list(query_ids)
        self.first_loss: float | None = None
        self.sharing: Sharing | None = None
        super().__init__(**options)
        self.remove_callback(PrinterCallback)

    def _precompute_ref_logps(self, dataset: Any, name: str, batch_size: int) -> Any:
        # Called at the end of TRL's constructor, after it has put its fused head on the base model.
        if self.accelerator.device.type == "cpu":
            self.sharing = speed_up(self.model.get_base_model())
        return super()._precompute_ref_logps(dataset, name, batch_size)

    def compute_ref_log_probs(self, model: Any, inputs: Mapping[str, Any]) -> Any:
        """Compute reference log-probabilities; the index is not for the model."""
        return super().compute_ref_log_probs(
            model, {key: value for key, value in inputs.items() if key != "pair_index"}
        )

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Compute the loss of a batch.

        Args:
            model: The policy.
            inputs: The collated batch.
            return_outputs: Passed on.
            num_items_in_batch: Passed on.

        Returns:
            What TRL returns.

        Raises:
            DataError: When the loss is not finite.
            UtilituneError: When the first loss shows that the policy does not start at the reference.
        """
        indices = inputs.pop("pair_index").tolist()
        result = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        loss = float((result[0] if return_outputs else result).detach())
        if not math.isfinite(loss):
            names = ", ".join(self.query_ids[index] for index in indices)
            raise DataError(
                f"the loss is {loss} at step {self.state.global_step + 1}, in the batch of the questions {names}; "
                "look at these pairs, or lower lr"
            )
        if self.first_loss is None and self.state.global_step == 0:
            self.first_loss = loss
            if abs(loss - math.log(2)) > STEP_ZERO_TOLERANCE:
                raise UtilituneError(
                    f"the first loss is {loss:.5f}, not ln 2 = {math.log(2):.5f}: the policy does not start at the "
                    "reference, so every margin would be off from the first step on"
                )
        return result


class BarCallback(TrainerCallback):  # type: ignore[misc]
    """Advances our progress bar."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Advance to the global step, which jumps at once after a resume."""
        self.bar.advance(state.global_step - self.bar.done)
