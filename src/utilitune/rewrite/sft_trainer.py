"""TRL's supervised trainer, which names the rows of a loss that is not finite. Importing this loads torch and TRL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trl import SFTTrainer

from utilitune.rewrite.completion_scores import speed_up
from utilitune.rewrite.loss_guard import check_finite


class CheckedSFTTrainer(SFTTrainer):  # type: ignore[misc]
    """Checks that every loss is finite; on CPU only the completions' positions meet the vocabulary."""

    def __init__(self, *, query_ids: Sequence[str], **options: Any) -> None:
        """Keep ``query_ids`` by ``pair_index``; ``options`` are those of TRL's trainer."""
        self.query_ids = list(query_ids)
        super().__init__(**options)
        if self.accelerator.device.type == "cpu":
            speed_up(self.model.get_base_model(), pairs=False)

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
        """
        indices = inputs.pop("pair_index").tolist()
        result = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        loss = float((result[0] if return_outputs else result).detach())
        check_finite(loss, self.state.global_step + 1, (self.query_ids[index] for index in indices))
        return result
