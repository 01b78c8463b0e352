"""Settings of one reranker training."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from utilitune.errors import ConfigError
from utilitune.rerank.rescale import RESCALES


@dataclass(frozen=True)
class RerankerConfig:
    """What can be set; every default is written into the training report.

    Attributes:
        loss: A name in ``LOSSES``.
        rescale: Make the targets anew from the utilities by this rule; ``None`` takes them as they are in the
            groups. The rule that suits a loss is ``LOSSES[loss].rule``.
        rescale_temperature: For the rule ``softmax``, > 0.
        target_temperature: tau of the targets in ``listwise-kl``: small sharpens the teacher. ``None``: 0.25
            for targets within [0, 1] (best against worst is then e^4), 1 for wider ones.
        score_temperature: tau of the scores in ``listwise-kl``.
        epochs: Passes over the training groups.
        learning_rate: Peak of AdamW. A new head on an encoder wants 5e-5 to 1e-4; a trained reranker 1e-5 to
            2e-5.
        warmup_share: Share of the steps in which the rate rises from 0; then it falls linearly.
        weight_decay: Of AdamW.
        batch_pairs: (query, passage) pairs a step, about: listwise losses take whole groups.
        max_length: Tokens a pair, an upper limit on top of what tokenizer and positions allow.
        query_share: Share of the tokens that a long query keeps when the passage wants them too, in (0, 1).
        dev_share: Share of the groups held out by conversation when no dev groups are given, in [0, 1).
        choose_by: What the best epoch is chosen by on held-out groups: ``nDCG@10``, or ``utility@5``, which is
            UDCG@5 where utilities are signed.
        seed: Of the new head, the order, dropout and the held-out split.
        min_spread: A model whose scores within a query vary less than this (mean standard deviation, logits)
            has collapsed.
        device: ``auto``, ``cpu``, ``cuda``, ``mps``.
    """

    loss: str = "listwise-kl"
    rescale: str | None = None
    rescale_temperature: float = 1.0
    target_temperature: float | None = None
    score_temperature: float = 1.0
    epochs: int = 3
    learning_rate: float = 5e-5
    warmup_share: float = 0.1
    weight_decay: float = 0.01
    batch_pairs: int = 32
    max_length: int | None = None
    query_share: float = 0.5
    dev_share: float = 0.2
    choose_by: str = "nDCG@10"
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
        from utilitune.rerank.dev_measure import CHOOSE_BY
        from utilitune.rerank.losses import LOSSES

        wrong = [
            (self.loss not in LOSSES, f"loss {self.loss!r} is unknown; known: {', '.join(LOSSES)}"),
            (
                self.rescale is not None and self.rescale not in RESCALES,
                f"rescale {self.rescale!r} is unknown; known: {', '.join(RESCALES)}",
            ),
            (not self.rescale_temperature > 0, f"rescale_temperature {self.rescale_temperature} must be > 0"),
            (
                self.target_temperature is not None and not self.target_temperature > 0,
                f"target_temperature {self.target_temperature} must be > 0",
            ),
            (not self.score_temperature > 0, f"score_temperature {self.score_temperature} must be > 0"),
            (self.epochs < 1, f"epochs {self.epochs} must be >= 1"),
            (not self.learning_rate > 0, f"learning_rate {self.learning_rate} must be > 0"),
            (not 0 <= self.warmup_share < 1, f"warmup_share {self.warmup_share} must be in [0, 1)"),
            (self.weight_decay < 0, f"weight_decay {self.weight_decay} must be >= 0"),
            (self.batch_pairs < 1, f"batch_pairs {self.batch_pairs} must be >= 1"),
            (
                self.max_length is not None and self.max_length < 8,
                f"max_length {self.max_length} must be >= 8",
            ),
            (not 0 < self.query_share < 1, f"query_share {self.query_share} must be in (0, 1)"),
            (not 0 <= self.dev_share < 1, f"dev_share {self.dev_share} must be in [0, 1)"),
            (
                self.choose_by not in CHOOSE_BY,
                f"choose_by {self.choose_by!r} is unknown; known: {', '.join(CHOOSE_BY)}",
            ),
            (self.min_spread < 0, f"min_spread {self.min_spread} must be >= 0"),
        ]
        problems = [message for is_wrong, message in wrong if is_wrong]
        if problems:
            raise ConfigError("reranker training: " + "; ".join(problems))
