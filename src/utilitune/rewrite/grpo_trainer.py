"""TRL's GRPO trainer with our reward, which names the rows of a loss that is not finite. Loads torch and TRL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trl import GRPOTrainer

from utilitune.rewrite.live_reward import LiveReward
from utilitune.rewrite.loss_guard import check_finite


class CheckedGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """Rewards samples by the utility of what they retrieve, and checks that every loss is finite."""

    def __init__(self, *, reward: LiveReward, **options: Any) -> None:
        """Keep ``reward``; ``options`` are those of TRL's trainer."""
        self.sampled_for: list[str] = []

        def utility(completions: Sequence[Any], query_id: Sequence[str], **columns: Any) -> list[float]:
            del columns
            self.sampled_for = list(query_id)
            return reward(query_id, [_text(one) for one in completions])

        super().__init__(reward_funcs=[utility], **options)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Compute the loss of a batch.

        Args:
            model: The policy.
            inputs: The sampled batch.
            return_outputs: Passed on.
            num_items_in_batch: Passed on.

        Returns:
            What TRL returns.

        Raises:
            DataError: When the loss is not finite.
        """
        result = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        loss = float((result[0] if return_outputs else result).detach())
        check_finite(loss, self.state.global_step + 1, self.sampled_for)
        return result


def _text(completion: Any) -> str:
    """Return a completion's text; conversational ones are lists of one message."""
    return completion if isinstance(completion, str) else str(completion[0]["content"])
