"""The settings that every training of this package has in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from utilitune.errors import ConfigError
from utilitune.rerank.rescale import RESCALES

Check = tuple[bool, str]
"""Whether a setting is wrong, and what to say then."""


@dataclass(frozen=True)
class TrainerConfig:
    """What a reranker's and a retriever's training share; every default is written into the training report.

    Attributes:
        trains: What is trained, for messages.
        loss: Name of the loss.
        rescale: Make the targets anew from the utilities by this rule; ``None`` takes them as they are in the groups.
        target_temperature: tau of the targets in ``listwise-kl``: small sharpens the teacher. ``None``: 0.25
            for targets within [0, 1] (best against worst is then e^4), 1 for wider ones.
        epochs: Passes over the training groups.
        learning_rate: Peak of AdamW.
        warmup_share: Share of the steps in which the rate rises from 0; then it falls linearly.
        weight_decay: Of AdamW.
        batch_pairs: (query, passage) pairs a step, about: groups stay whole.
        max_length: Tokens, an upper limit on top of what tokenizer and positions allow.
        dev_share: Share of the groups held out by conversation when no dev groups are given, in [0, 1).
        seed: Of all that is drawn and of the held-out split.
        min_spread: A model whose scores within a query vary less than this (mean standard deviation) has collapsed.
        device: ``auto``, ``cpu``, ``cuda``, ``mps``.
    """

    trains: ClassVar[str]
    loss: str = "listwise-kl"
    rescale: str | None = None
    target_temperature: float | None = None
    epochs: int = 3
    learning_rate: float = 5e-5
    warmup_share: float = 0.1
    weight_decay: float = 0.01
    batch_pairs: int = 32
    max_length: int | None = None
    dev_share: float = 0.2
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
        problems = [message for is_wrong, message in self.checks() if is_wrong]
        if problems:
            raise ConfigError(f"{self.trains} training: " + "; ".join(problems))

    def checks(self) -> list[Check]:
        """Return what is looked at."""
        return [
            (
                self.rescale is not None and self.rescale not in RESCALES,
                f"rescale {self.rescale!r} is unknown; known: {', '.join(RESCALES)}",
            ),
            (
                self.target_temperature is not None and not self.target_temperature > 0,
                f"target_temperature {self.target_temperature} must be > 0",
            ),
            (self.epochs < 1, f"epochs {self.epochs} must be >= 1"),
            (not self.learning_rate > 0, f"learning_rate {self.learning_rate} must be > 0"),
            (not 0 <= self.warmup_share < 1, f"warmup_share {self.warmup_share} must be in [0, 1)"),
            (self.weight_decay < 0, f"weight_decay {self.weight_decay} must be >= 0"),
            (self.batch_pairs < 1, f"batch_pairs {self.batch_pairs} must be >= 1"),
            (self.max_length is not None and self.max_length < 8, f"max_length {self.max_length} must be >= 8"),
            (not 0 <= self.dev_share < 1, f"dev_share {self.dev_share} must be in [0, 1)"),
            (self.min_spread < 0, f"min_spread {self.min_spread} must be >= 0"),
        ]


def among(name: str, value: str, known: Iterable[str]) -> Check:
    """Look whether a value is known.

    Args:
        name: Of the setting.
        value: What was given.
        known: What may be.

    Returns:
        The check.
    """
    return value not in known, f"{name} {value!r} is unknown; known: {', '.join(known)}"
