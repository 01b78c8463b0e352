"""What happened in a training, for ``training.json``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from utilitune.rerank.dev_measure import DevMeasure
from utilitune.rerank.epoch_report import EpochReport


@dataclass(frozen=True)
class TrainingReport:
    """Result of ``train_reranker``.

    Attributes:
        base: Starting point, as the user gave it.
        out: Folder of the saved model.
        config: Settings, with what was left to a default filled in.
        groups: Training groups.
        pairs: Their (query, passage) pairs.
        steps: Optimizer steps.
        measured_on: ``"held-out"`` groups, ``"given"`` dev groups, or ``"train"`` when there were none.
        epochs: The untrained model and every epoch.
        kept_epoch: The epoch whose weights were saved.
        collapsed: Whether no epoch was better than the untrained model, which was kept then.
        warnings: What a reader must know before using the model.
        truncation: Pairs, truncated pairs, queries and passages, for ``train`` and for ``dev``.
        max_length: Tokens a pair, as enforced.
        activation: Saved activation; the identity: ``CrossEncoder.predict`` gives logits.
        seconds: Wall clock of the training steps (dev checks apart).
        pairs_per_second: Pairs through forward and backward in that time.
        device: Where it ran.
        targets: How the utilities became targets: label sets, rescaling rule and temperature, relevance.
        drops: What building the groups left out.
        queries: Ids of the queries it learnt from, ``train``, and those that chose the epoch, ``dev``.
    """

    base: str
    out: str
    config: dict[str, Any]
    groups: int
    pairs: int
    steps: int
    measured_on: str
    epochs: list[EpochReport[DevMeasure]]
    kept_epoch: int
    collapsed: bool
    warnings: list[str]
    truncation: dict[str, dict[str, int]]
    max_length: int
    activation: str
    seconds: float
    pairs_per_second: float
    device: str
    targets: dict[str, Any] = field(default_factory=dict)
    drops: dict[str, int] = field(default_factory=dict)
    queries: dict[str, list[str]] = field(default_factory=dict)

    @property
    def untrained(self) -> DevMeasure:
        """The new head before the first step."""
        return self.epochs[0].dev

    @property
    def kept(self) -> DevMeasure:
        """The model that was saved."""
        return next(entry.dev for entry in self.epochs if entry.epoch == self.kept_epoch)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        return asdict(self)
