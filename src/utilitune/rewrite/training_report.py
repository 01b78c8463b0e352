"""What a training run did, and one line on how to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

_ALWAYS = {"loss": "loss", "grad_norm": "grad_norm", "learning_rate": "learning_rate"}
LOGGED: Mapping[str, Mapping[str, str]] = {
    "sft": {**_ALWAYS, "mean_token_accuracy": "token_accuracy", "entropy": "entropy"},
    "dpo": {
        **_ALWAYS,
        "rewards/margins": "margin",
        "rewards/accuracies": "accuracy",
        "logps/chosen": "logp_chosen",
        "logps/rejected": "logp_rejected",
    },
    "grpo": {
        **_ALWAYS,
        "reward": "reward",
        "reward_std": "reward_std",
        "frac_reward_zero_std": "flat",
        "kl": "kl",
        "entropy": "entropy",
        "completions/mean_length": "length",
        "completions/clipped_ratio": "cut",
    },
}
"""TRL's names and ours, by method. ``loss`` of ``sft`` is minus the mean log-probability of a chosen token, nats.
``margin`` is beta times the difference of log-ratios; ``accuracy`` the share of pairs with margin > 0;
log-probabilities of ``dpo`` are sums over a completion, nats, batch means. ``reward`` is the batch mean utility,
``reward_std`` its spread over a question's samples, ``flat`` the share of questions whose samples are worth the same
(they teach nothing), ``length`` in tokens, ``cut`` the share of samples that reached the limit."""

Rows = Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class TrainingReport:
    """Contents of ``training.json``.

    Attributes:
        folder: Where the adapter is, as given.
        method: ``sft``, ``dpo`` or ``grpo``.
        base: Portable base reference.
        reference: What the policy was compared with.
        rows: Pairs, rewrites or questions trained on.
        drops: ``{reason: rows}`` left out.
        steps: Optimiser steps.
        resumed_from: Step that the run went on from, 0 for a fresh run.
        seconds: Wall-clock of it all.
        seconds_per_step: Wall-clock of an optimiser step.
        setup_seconds: Wall-clock before the first step: weights, and for ``dpo`` the reference pass.
        peak_rss_mb: Peak resident memory of the process, MiB.
        first_loss: Loss before the first update; ln 2 for ``dpo`` when the policy starts at the reference.
        last_loss: Mean loss of the last fifth of the steps.
        reading: One line on what the curves say.
        log: One row a step.
    """

    folder: str
    method: str
    base: str
    reference: str
    rows: int
    drops: Mapping[str, int]
    steps: int
    resumed_from: int
    seconds: float
    seconds_per_step: float
    setup_seconds: float
    peak_rss_mb: float
    first_loss: float | None
    last_loss: float | None
    reading: str
    log: Sequence[Mapping[str, float]] = field(repr=False, default=())

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return asdict(self)

    def counts(self) -> dict[str, int]:
        """Return rows, steps and drops by reason, for a stage's manifest."""
        return {"rows": self.rows, "steps": self.steps, **{f"dropped_{key}": n for key, n in self.drops.items()}}

    @property
    def path(self) -> Path:
        """The folder as a path."""
        return Path(self.folder)


def log_rows(history: Sequence[Mapping[str, Any]], method: str) -> list[dict[str, float]]:
    """Pick a method's columns from the trainer's log history, one row a step."""
    return [
        {
            "step": row["step"],
            **{ours: float(row[theirs]) for theirs, ours in LOGGED[method].items() if row.get(theirs) is not None},
        }
        for row in history
        if "loss" in row
    ]


def head_mean(rows: Rows, column: str) -> float | None:
    """Return the mean of a column over the first fifth of the rows (at least one)."""
    values = [row[column] for row in rows if column in row]
    return fmean(values[: max(1, len(values) // 5)]) if values else None


def tail_mean(rows: Rows, column: str) -> float | None:
    """Return the mean of a column over the last fifth of the rows (at least one)."""
    values = [row[column] for row in rows if column in row]
    return fmean(values[-max(1, len(values) // 5) :]) if values else None


def reading(rows: Rows, method: str, beta: float = 0.0, *, relative: bool = False) -> str:
    """Say in one line what the curves mean.

    Args:
        rows: From ``log_rows``.
        method: ``sft``, ``dpo`` or ``grpo``.
        beta: The run's beta; margins of ``dpo`` are in its units.
        relative: Whether the reward of ``grpo`` compares the samples of one step alone.

    Returns:
        The line; thresholds are rules of thumb, stated in it.
    """
    if not rows:
        return "no step was logged"
    summary, verdict = READINGS[method](rows, beta)
    if relative and verdict in _LEVELS:
        verdict = "the reward compares a step's samples with one another, so its level says nothing: measure"
    return f"{summary}; {verdict if len(rows) >= 5 else f'{len(rows)} steps are too few to read'}"


def _sft(rows: Rows, beta: float) -> tuple[str, str]:
    del beta
    loss, accuracy = tail_mean(rows, "loss") or 0.0, tail_mean(rows, "token_accuracy") or 0.0
    summary = f"loss {rows[0]['loss']:.3f} to {loss:.3f} a token, {accuracy:.0%} of tokens right at the end"
    if loss > 0.98 * rows[0]["loss"]:
        return summary, "loss flat: nothing learnt, raise lr or epochs"
    if loss < 0.05:
        return summary, "loss near 0: the rewrites are learnt by heart, stop earlier or add questions"
    return summary, "the chosen rewrites are becoming likely"


def _dpo(rows: Rows, beta: float) -> tuple[str, str]:
    margin, accuracy = tail_mean(rows, "margin") or 0.0, tail_mean(rows, "accuracy") or 0.0
    loss = tail_mean(rows, "loss") or 0.0
    columns = ("logp_chosen", "logp_rejected")
    drift = {name: (tail_mean(rows, name) or 0.0) - (head_mean(rows, name) or 0.0) for name in columns}
    summary = (
        f"loss {rows[0]['loss']:.3f} to {loss:.3f}, margin {margin:+.3f}, accuracy {accuracy:.0%} at the end, "
        f"chosen log-probability {drift['logp_chosen']:+.1f} nats"
    )
    if abs(margin) < 0.1 * beta:
        return summary, f"margin flat (under {0.1 * beta:g}): nothing learnt, raise lr or the pairs' margin"
    if margin < 0:
        return summary, "the rejected side is winning: check which side is which, and the labels"
    if loss < 0.05:
        return summary, "loss near 0: the pairs are learnt by heart, stop earlier or add pairs"
    if all(change < -2.0 for change in drift.values()):
        return summary, (
            f"both sides became less likely ({drift['logp_chosen']:+.1f}, {drift['logp_rejected']:+.1f} nats): "
            "the margin comes from unlearning, raise beta or lower lr"
        )
    return summary, "the chosen side is pulling ahead"


_LEVELS = (
    "the utility is rising",
    "the utility is falling: lower lr",
    "no clear change: the batches differ more than the policy has moved",
)


def _grpo(rows: Rows, beta: float) -> tuple[str, str]:
    del beta
    first, last = head_mean(rows, "reward") or 0.0, tail_mean(rows, "reward") or 0.0
    spread, flat = fmean(row.get("reward_std", 0.0) for row in rows), tail_mean(rows, "flat") or 0.0
    summary = (
        f"utility {first:+.3f} to {last:+.3f} (spread over a question's samples {spread:.3f}), "
        f"{flat:.0%} of questions flat at the end"
    )
    if spread == 0.0:
        return summary, "all samples are worth the same: nothing learnt, raise temperature or generations"
    if flat > 0.8:
        return summary, "samples hardly differ: raise temperature or generations, or stop here"
    if (tail_mean(rows, "cut") or 0.0) > 0.5:
        return summary, "over half of the samples hit the length limit: raise max_new_tokens, or start from an SFT"
    if last - first > 0.1 * spread:
        return summary, _LEVELS[0]
    if last - first < -0.1 * spread:
        return summary, _LEVELS[1]
    return summary, _LEVELS[2]


READINGS: Mapping[str, Callable[[Rows, float], tuple[str, str]]] = {"sft": _sft, "dpo": _dpo, "grpo": _grpo}
