"""Settings of one retriever training."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from utilitune.errors import ConfigError
from utilitune.rerank.rescale import RESCALES

STUDENT_LOSSES: dict[str, str] = {
    "listwise-kl": "KL(softmax(t/tau_t) || softmax(cos/tau_s)) over a query's candidates",
    "margin-mse": "((cos_i - cos_j)/tau_s - (t_i - t_j))^2, i the best candidate of a query",
}
"""Losses by name, with their formula: t targets, cos cosines. Both are sentence-transformers' own."""


@dataclass(frozen=True)
class RetrieverConfig:
    """What can be set; every default is written into the training report.

    Attributes:
        loss: A name in ``STUDENT_LOSSES``.
        rescale: Make the targets anew from the utilities by this rule; ``None`` takes them as they are.
        target_temperature: tau_t of ``listwise-kl``: small sharpens the teacher. ``None``: 0.25 for targets within
            [0, 1], 1 for wider ones.
        score_temperature: tau_s, by which cosines are divided. ``None``: chosen so that the untrained encoder's scores
            vary within a query as much as the targets do; much smaller, and most of what is learnt is to flatten them.
        in_batch: Weight of a second loss that holds a query's best passage against the passages of the other queries
            of the batch (InfoNCE, arXiv 1807.03748): the first one looks at a query's own candidates alone, this one
            keeps the rest of the corpus away. 0 leaves it out.
        in_batch_temperature: By which it divides cosines.
        epochs: Passes over the training groups.
        learning_rate: Peak of AdamW.
        warmup_share: Share of the steps in which the rate rises from 0; then it falls linearly.
        weight_decay: Of AdamW.
        batch_pairs: (query, passage) pairs a step, about: groups stay whole.
        max_length: Tokens a text, an upper limit on top of the encoder's own window.
        dev_share: Share of the groups held out by conversation when no dev groups are given, in [0, 1).
        pool: Passages that a held-out query is ranked against, about: all of the held-out groups, filled up from the
            training groups.
        seed: Of the order, dropout and the held-out split.
        min_spread: An encoder whose cosines within a query vary less than this (mean standard deviation) has
            collapsed.
        device: ``auto``, ``cpu``, ``cuda``, ``mps``.
    """

    loss: str = "listwise-kl"
    rescale: str | None = None
    target_temperature: float | None = None
    score_temperature: float | None = None
    in_batch: float = 0.1
    in_batch_temperature: float = 0.05
    epochs: int = 3
    learning_rate: float = 2e-5
    warmup_share: float = 0.1
    weight_decay: float = 0.01
    batch_pairs: int = 64
    max_length: int | None = None
    dev_share: float = 0.2
    pool: int = 2000
    seed: int = 13
    min_spread: float = 1e-3
    device: str = "auto"

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON-ready values."""
        return asdict(self)

    def check(self) -> None:
        """Look at every setting.

        Raises:
            ConfigError: With all problems at once.
        """
        wrong = [
            (self.loss not in STUDENT_LOSSES, f"loss {self.loss!r} is unknown; known: {', '.join(STUDENT_LOSSES)}"),
            (
                self.rescale is not None and self.rescale not in RESCALES,
                f"rescale {self.rescale!r} is unknown; known: {', '.join(RESCALES)}",
            ),
            (
                self.target_temperature is not None and not self.target_temperature > 0,
                f"target_temperature {self.target_temperature} must be > 0",
            ),
            (
                self.score_temperature is not None and not self.score_temperature > 0,
                f"score_temperature {self.score_temperature} must be > 0",
            ),
            (not self.in_batch_temperature > 0, f"in_batch_temperature {self.in_batch_temperature} must be > 0"),
            (not self.in_batch >= 0, f"in_batch {self.in_batch} must be >= 0"),
            (self.epochs < 1, f"epochs {self.epochs} must be >= 1"),
            (not self.learning_rate > 0, f"learning_rate {self.learning_rate} must be > 0"),
            (not 0 <= self.warmup_share < 1, f"warmup_share {self.warmup_share} must be in [0, 1)"),
            (self.weight_decay < 0, f"weight_decay {self.weight_decay} must be >= 0"),
            (self.batch_pairs < 1, f"batch_pairs {self.batch_pairs} must be >= 1"),
            (self.max_length is not None and self.max_length < 8, f"max_length {self.max_length} must be >= 8"),
            (not 0 <= self.dev_share < 1, f"dev_share {self.dev_share} must be in [0, 1)"),
            (self.pool < 1, f"pool {self.pool} must be >= 1"),
            (self.min_spread < 0, f"min_spread {self.min_spread} must be >= 0"),
        ]
        problems = [message for is_wrong, message in wrong if is_wrong]
        if problems:
            raise ConfigError("retriever training: " + "; ".join(problems))
