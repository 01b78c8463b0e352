"""How far a judge agrees with people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from utilitune.errors import DataError
from utilitune.evaluation.judge.interval import RESAMPLES, SEED, Interval


@dataclass(frozen=True)
class Agreement:
    """Two raters over the same items.

    Attributes:
        n: Items.
        same: Items with the same label.
        interval: 95 % bootstrap interval of the share of equal labels; ``None`` below two items.
        kappa: Cohen's kappa, ``None`` where both raters use one and the same label throughout.
        kappa_interval: 95 % bootstrap interval of kappa; draws without a kappa are left out.
    """

    n: int
    same: int
    interval: Interval | None
    kappa: float | None
    kappa_interval: Interval | None

    @property
    def share(self) -> float:
        """Share of equal labels, in [0, 1]."""
        return self.same / self.n


def agreement(ours: Sequence[str], theirs: Sequence[str], *, resamples: int = RESAMPLES, seed: int = SEED) -> Agreement:
    """Compare two raters.

    Formula: ``kappa = (p_o - p_e) / (1 - p_e)``, ``p_e = sum_label p_ours(label) p_theirs(label)`` (Cohen 1960).

    Args:
        ours: Labels.
        theirs: Labels of the same items, in the same order.
        resamples: Bootstrap draws of items, >= 1.
        seed: Seed of the draws.

    Returns:
        Observed agreement and kappa, with intervals.

    Raises:
        DataError: If there are no items, or not as many labels of each.
    """
    if len(ours) != len(theirs) or not ours:
        raise DataError(f"{len(ours)} labels against {len(theirs)}; agreement needs one of each for every item")
    labels = sorted({*ours, *theirs})
    cell = np.array([labels.index(a) * len(labels) + labels.index(b) for a, b in zip(ours, theirs, strict=True)])
    counts = np.bincount(cell, minlength=len(labels) ** 2)
    observed, kappa = _kappa(counts[None, :], len(labels))
    interval = kappa_interval = None
    if len(cell) > 1:
        draws = np.random.default_rng(seed).multinomial(len(cell), counts / len(cell), resamples)
        shares, kappas = _kappa(draws, len(labels))
        interval = _middle(shares)
        kappa_interval = _middle(kappas[~np.isnan(kappas)])
    return Agreement(
        n=len(cell),
        same=round(float(observed[0]) * len(cell)),
        interval=interval,
        kappa=None if np.isnan(kappa[0]) else float(kappa[0]),
        kappa_interval=kappa_interval if not np.isnan(kappa[0]) else None,
    )


def _kappa(counts: NDArray[np.int64], size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return observed agreement and kappa of each flattened confusion table."""
    tables = counts.reshape(-1, size, size) / counts.sum(1)[:, None, None]
    observed = np.trace(tables, axis1=1, axis2=2)
    expected = (tables.sum(2) * tables.sum(1)).sum(1)
    constant = expected > 1 - 1e-12
    kappa = (observed - expected) / np.where(constant, np.nan, 1 - expected)
    return observed, kappa


def _middle(values: NDArray[np.float64]) -> Interval | None:
    if not len(values):
        return None
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
