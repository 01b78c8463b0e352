"""Logits to probabilities: one temperature and one shift, fitted to targets in [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from utilitune.errors import DataError
from utilitune.rerank.rescale import Vector


def fit_temperature(scores: Sequence[float], targets: Sequence[float]) -> tuple[float, float]:
    """Fit ``P = sigmoid((score - shift) / temperature)`` by the least cross-entropy.

    The temperature alone (Guo et al. 2017, arXiv 1706.04599) would take the scores' zero for an even chance,
    which ranking losses leave open: hence the shift (Platt 1999). Targets are drawn in by one half of a
    pseudo-count at both ends, as Platt does, so that scores which separate them perfectly have an optimum.
    The temperature is positive: the order never changes.

    Args:
        scores: Finite logits, not all equal.
        targets: As many numbers in [0, 1], not all equal.

    Returns:
        ``(temperature, shift)``, in logits; temperature > 0.

    Raises:
        DataError: If scores or targets are all equal, or the scores do not rise with the targets.
    """
    from scipy.optimize import minimize  # type: ignore[import-untyped,unused-ignore]
    from scipy.special import expit  # type: ignore[import-untyped,unused-ignore]

    raw = np.asarray(scores, np.float64)
    drawn_in = (np.asarray(targets, np.float64) * len(raw) + 1) / (len(raw) + 2)
    centre, spread = raw.mean(), raw.std()
    if spread == 0 or drawn_in.std() == 0:
        what = "scores" if spread == 0 else "targets"
        raise DataError(
            f"all {len(raw)} {what} are equal: there is nothing to calibrate to; give labels of more queries, some "
            "that help and some that do not"
        )
    scaled = (raw - centre) / spread

    def loss(line: Vector) -> tuple[float, Vector]:
        logits = line[0] * scaled + line[1]
        slope = expit(logits) - drawn_in
        value = float(np.mean(np.logaddexp(0.0, logits) - drawn_in * logits))
        return value, np.asarray([float(np.mean(slope * scaled)), float(np.mean(slope))])

    steep, height = minimize(loss, np.asarray([1.0, 0.0]), jac=True, method="BFGS").x
    if steep <= 1e-6:
        raise DataError(
            "the scores do not rise with the utility on these labels, so no temperature makes probabilities of them; "
            "look at the reranker's held-out nDCG first"
        )
    temperature = float(spread / steep)
    return temperature, float(centre - height * temperature)


def probability(score: float) -> float:
    """Return the sigmoid of a logit in double precision, for display and thresholds; never rank by it."""
    return 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score))
