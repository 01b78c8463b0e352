"""Settings of one reranker training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from utilitune.rerank.trainer_config import Check, TrainerConfig, among


@dataclass(frozen=True)
class RerankerConfig(TrainerConfig):
    """What can be set, next to what every training has (``TrainerConfig``).

    ``loss`` is a name in ``LOSSES``, and the rule that suits it ``LOSSES[loss].rule``; listwise losses take whole
    groups. As ``learning_rate`` a new head on an encoder wants 5e-5 to 1e-4, a trained reranker 1e-5 to 2e-5.
    ``max_length`` is of a pair, ``min_spread`` of logits.

    Attributes:
        trains: A reranker.
        head: What makes the score: ``classification``, a new layer, or ``similarity``, which ranks before training.
        rescale_temperature: For the rule ``softmax``, > 0.
        score_temperature: tau of the scores in ``listwise-kl``.
        query_share: Share of the tokens that a long query keeps when the passage wants them too, in (0, 1).
        choose_by: What the best epoch is chosen by on held-out groups: ``nDCG@10``, or ``utility@5``, which is
            UDCG@5 where utilities are signed.
    """

    trains: ClassVar[str] = "reranker"
    head: str = "classification"
    rescale_temperature: float = 1.0
    score_temperature: float = 1.0
    query_share: float = 0.5
    choose_by: str = "nDCG@10"

    def checks(self) -> list[Check]:
        """Return what is looked at."""
        from utilitune.rerank.dev_measure import CHOOSE_BY
        from utilitune.rerank.heads import HEADS
        from utilitune.rerank.losses import LOSSES

        return [
            among("head", self.head, HEADS),
            among("loss", self.loss, LOSSES),
            *super().checks(),
            (not self.rescale_temperature > 0, f"rescale_temperature {self.rescale_temperature} must be > 0"),
            (not self.score_temperature > 0, f"score_temperature {self.score_temperature} must be > 0"),
            (not 0 < self.query_share < 1, f"query_share {self.query_share} must be in (0, 1)"),
            among("choose_by", self.choose_by, CHOOSE_BY),
        ]
