"""Settings of one retriever training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from utilitune.rerank.trainer_config import Check, TrainerConfig, among

STUDENT_LOSSES: dict[str, str] = {
    "listwise-kl": "KL(softmax(t/tau_t) || softmax(cos/tau_s)) over a query's candidates",
    "margin-mse": "((cos_i - cos_j)/tau_s - (t_i - t_j))^2, i the best candidate of a query",
}
"""Losses by name, with their formula: t targets, cos cosines. Both are sentence-transformers' own."""


@dataclass(frozen=True)
class RetrieverConfig(TrainerConfig):
    """What can be set, next to what every training has (``TrainerConfig``).

    ``loss`` is a name in ``STUDENT_LOSSES``. ``max_length`` is of a text, ``min_spread`` of cosines.

    Attributes:
        trains: A retriever.
        score_temperature: tau_s, by which cosines are divided. ``None``: chosen so that the untrained encoder's scores
            vary within a query as much as the targets do; much smaller, and most of what is learnt is to flatten them.
        in_batch: Weight of a second loss that holds a query's best passage against the passages of the other queries
            of the batch (InfoNCE, arXiv 1807.03748): the first one looks at a query's own candidates alone, this one
            keeps the rest of the corpus away. 0 leaves it out.
        in_batch_temperature: By which it divides cosines.
        learning_rate: Peak of AdamW.
        batch_pairs: (query, passage) pairs a step, about: groups stay whole.
        pool: Passages that a held-out query is ranked against, about: all of the held-out groups, filled up from the
            training groups.
    """

    trains: ClassVar[str] = "retriever"
    score_temperature: float | None = None
    in_batch: float = 0.1
    in_batch_temperature: float = 0.05
    learning_rate: float = 2e-5
    batch_pairs: int = 64
    pool: int = 2000

    def checks(self) -> list[Check]:
        """Return what is looked at."""
        return [
            among("loss", self.loss, STUDENT_LOSSES),
            *super().checks(),
            (
                self.score_temperature is not None and not self.score_temperature > 0,
                f"score_temperature {self.score_temperature} must be > 0",
            ),
            (not self.in_batch_temperature > 0, f"in_batch_temperature {self.in_batch_temperature} must be > 0"),
            (not self.in_batch >= 0, f"in_batch {self.in_batch} must be >= 0"),
            (self.pool < 1, f"pool {self.pool} must be >= 1"),
        ]
