"""What happened in a retriever training, for ``training.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from utilitune.rerank.epoch_report import EpochReport
from utilitune.rerank.student.pool import PoolMeasure


@dataclass(frozen=True)
class RetrieverReport:
    """Result of ``train_retriever``.

    Attributes:
        encoder: Starting point, as the user gave it.
        out: Folder of the saved encoder.
        teacher: Label sets that the targets were made of, or ``reranker``; empty for targets of unknown origin.
        config: Settings, with what was left to a default filled in.
        groups: Training groups.
        pairs: Their (query, passage) pairs.
        steps: Optimizer steps.
        resumed_from: Step that the run went on from, 0 for a fresh run.
        measured_on: ``"held-out"`` groups, ``"given"`` dev groups, or ``"train"`` when there were none.
        epochs: The untrained encoder and every epoch.
        kept_epoch: The epoch whose weights were saved.
        collapsed: Whether no epoch was better than the untrained encoder, which was kept then.
        warnings: What a reader must know before using the encoder.
        counts: ``queries_cut`` and ``passages_cut`` (distinct texts longer than the window), ``in_batch_negatives``
            (of the steps since the start or the resume) and ``in_batch_kept_out``: passages of another query that are
            the same text as a candidate of this one.
        prompts: What is put before queries and passages, by name.
        max_length: Tokens a text, as enforced.
        seconds: Wall clock of the training steps since the start or the resume (dev checks apart).
        device: Where it ran.
        drops: What building the groups left out.
        queries: Ids of the queries it learnt from, ``train``, and those that chose the epoch, ``dev``.
    """

    encoder: str
    out: str
    teacher: list[str]
    config: dict[str, Any]
    groups: int
    pairs: int
    steps: int
    resumed_from: int
    measured_on: str
    epochs: list[EpochReport[PoolMeasure]]
    kept_epoch: int
    collapsed: bool
    warnings: list[str]
    counts: dict[str, int]
    prompts: dict[str, str]
    max_length: int
    seconds: float
    device: str
    drops: dict[str, int] = field(default_factory=dict)
    queries: dict[str, list[str]] = field(default_factory=dict)

    @property
    def untrained(self) -> PoolMeasure:
        """The encoder before the first step."""
        return self.epochs[0].dev

    @property
    def kept(self) -> PoolMeasure:
        """The encoder that was saved."""
        return next(entry.dev for entry in self.epochs if entry.epoch == self.kept_epoch)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        return asdict(self)


def epochs_of(history: Sequence[Mapping[str, Any]]) -> list[EpochReport[PoolMeasure]]:
    """Read the epochs off a trainer's log, which a resume carries on.

    Args:
        history: Rows with ``loss`` a step, and ``eval_…`` measures after every epoch, 0 included.

    Returns:
        One entry an epoch, in order.
    """
    names = [each.name for each in fields(PoolMeasure)]
    found: list[EpochReport[PoolMeasure]] = []
    losses: list[float] = []
    for row in history:
        if math.isfinite(row.get("loss", math.nan)):
            losses.append(float(row["loss"]))
        if "eval_ndcg" in row:
            dev = PoolMeasure(**{name: row[f"eval_{name}"] for name in names})
            # A run that stopped inside an epoch is measured there.
            epoch = math.ceil(row["epoch"] - 1e-6)
            found.append(EpochReport(epoch, dev, sum(losses) / len(losses) if losses else None))
            losses = []
    return found
