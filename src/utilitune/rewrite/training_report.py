"""What a training run did, and one line on how to read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

LOGGED = {
    "loss": "loss",
    "rewards/margins": "margin",
    "rewards/accuracies": "accuracy",
    "logps/chosen": "logp_chosen",
    "logps/rejected": "logp_rejected",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
}
"""TRL's names and ours. ``margin`` is beta times the difference of log-ratios; ``accuracy`` the share of
pairs with margin > 0; log-probabilities are sums over a completion, in nats, batch means."""


@dataclass(frozen=True)
class TrainingReport:
    """Contents of ``training.json``.

    Attributes:
        folder: Where the adapter is, as given.
        base: Portable base reference.
        reference: What the policy was compared with.
        pairs: Pairs trained on.
        drops: ``{reason: pairs}`` left out.
        steps: Optimiser steps.
        resumed_from: Step that the run went on from, 0 for a fresh run.
        seconds: Wall-clock of training, reference pass included.
        seconds_per_step: Wall-clock of an optimiser step.
        reference_seconds: Wall-clock of the reference pass.
        peak_rss_mb: Peak resident memory of the process, MiB.
        first_loss: Loss before the first update; ln 2 when the policy starts at the reference.
        last_loss: Mean loss of the last fifth of the steps.
        reading: One line on what the curves say.
        log: One row a step.
    """

    folder: str
    base: str
    reference: str
    pairs: int
    drops: Mapping[str, int]
    steps: int
    resumed_from: int
    seconds: float
    seconds_per_step: float
    reference_seconds: float
    peak_rss_mb: float
    first_loss: float | None
    last_loss: float | None
    reading: str
    log: Sequence[Mapping[str, float]] = field(repr=False, default=())

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return asdict(self)

    def counts(self) -> dict[str, int]:
        """Return pairs, steps and drops by reason, for a stage's manifest."""
        return {"pairs": self.pairs, "steps": self.steps, **{f"dropped_{key}": n for key, n in self.drops.items()}}

    @property
    def path(self) -> Path:
        """The folder as a path."""
        return Path(self.folder)


def log_rows(history: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Pick our columns from the trainer's log history, one row a step."""
    return [
        {
            "step": row["step"],
            **{ours: float(row[theirs]) for theirs, ours in LOGGED.items() if theirs in row},
        }
        for row in history
        if "loss" in row
    ]


def tail_mean(rows: Sequence[Mapping[str, float]], column: str) -> float | None:
    """Return the mean of a column over the last fifth of the rows (at least one)."""
    values = [row[column] for row in rows if column in row]
    return fmean(values[-max(1, len(values) // 5) :]) if values else None


def reading(rows: Sequence[Mapping[str, float]], beta: float) -> str:
    """Say in one line what the curves mean.

    Args:
        rows: From ``log_rows``.
        beta: The run's beta; margins are in its units.

    Returns:
        The line; thresholds are rules of thumb, stated in it.
    """
    if not rows:
        return "no step was logged"
    head = max(1, len(rows) // 5)
    margin = tail_mean(rows, "margin") or 0.0
    accuracy = tail_mean(rows, "accuracy") or 0.0
    loss = tail_mean(rows, "loss") or 0.0
    columns = ("logp_chosen", "logp_rejected")
    drift = {
        name: (tail_mean(rows, name) or 0.0) - fmean(row.get(name, 0.0) for row in rows[:head]) for name in columns
    }
    summary = f"loss {rows[0]['loss']:.3f} to {loss:.3f}, margin {margin:+.3f}, accuracy {accuracy:.0%} at the end"
    if len(rows) < 5:
        return f"{summary}; {len(rows)} steps are too few to read"
    if abs(margin) < 0.1 * beta:
        return f"{summary}; margin flat (under {0.1 * beta:g}): nothing learnt, raise lr or the pairs' margin"
    if margin < 0:
        return f"{summary}; the rejected side is winning: check which side is which, and the labels"
    if loss < 0.05:
        return f"{summary}; loss near 0: the pairs are learnt by heart, stop earlier or add pairs"
    if all(change < -2.0 for change in drift.values()):
        return (
            f"{summary}; both sides became less likely ({drift['logp_chosen']:+.1f}, {drift['logp_rejected']:+.1f} "
            "nats): the margin comes from unlearning, raise beta or lower lr"
        )
    return f"{summary}; the chosen side is pulling ahead"
