"""TRL's DPO trainer, with checks that turn a silent failure into a message. Importing this loads torch and TRL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from trl import DPOTrainer

from utilitune.errors import UtilituneError
from utilitune.progress import say
from utilitune.rewrite.completion_scores import Sharing, speed_up
from utilitune.rewrite.loss_guard import check_finite

STEP_ZERO_TOLERANCE = 1e-3
NO_CHANGE = 1e-6
"""Rounding of a loss in float32."""


class CheckedDPOTrainer(DPOTrainer):  # type: ignore[misc]
    """Checks the reference at step 0 and that every loss is finite, naming the questions of the batch.

    A policy that starts at its reference has the loss ln 2 before the first update; an adapter that is compared with
    its base has not.
    """

    def __init__(self, *, query_ids: Sequence[str], reference: str = "start", **options: Any) -> None:
        """Keep ``query_ids`` by ``pair_index``; ``options`` are those of TRL's trainer."""
        self.query_ids = list(query_ids)
        self.reference = reference
        self.first_loss: float | None = None
        self.sharing: Sharing | None = None
        super().__init__(**options)

    def _precompute_ref_logps(self, dataset: Any, name: str, batch_size: int) -> Any:
        # Called at the end of TRL's constructor, after it has put its fused head on the base model.
        if self.accelerator.device.type == "cpu":
            self.sharing = speed_up(self.model.get_base_model())
        # TRL keeps a copy of an adapter that it is given, and takes that for the reference where there is one.
        if self.reference == "base" and "ref" in self.model.peft_config:
            self.model.delete_adapter("ref")
        scored = super()._precompute_ref_logps(dataset, name, batch_size)
        # Not needed again, and best not in every checkpoint.
        if "ref" in self.model.peft_config:
            self.model.delete_adapter("ref")
        return scored

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
            UtilituneError: When the first loss is not what the choice of the reference makes it.
        """
        indices = inputs.pop("pair_index").tolist()
        result = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        loss = float((result[0] if return_outputs else result).detach())
        check_finite(loss, self.state.global_step + 1, (self.query_ids[index] for index in indices))
        if self.first_loss is None and self.state.global_step == 0:
            self.first_loss = loss
            self._check_reference(loss)
        return result

    def _check_reference(self, loss: float) -> None:
        off = abs(loss - math.log(2))
        if self.reference == "start" and off > STEP_ZERO_TOLERANCE:
            raise UtilituneError(
                f"the first loss is {loss:.5f}, not ln 2 = {math.log(2):.5f}: the policy does not start at the "
                "reference, so every margin would be off from the first step on"
            )
        if self.reference == "base":
            if off < NO_CHANGE:
                raise UtilituneError(
                    "the first loss is ln 2: the adapter to start from changes nothing, or the reference is "
                    "the adapter itself and not its base"
                )
            say(f"reference: the base; the policy starts {off:.3g} away from it in loss (ln 2 would be none)")
