"""How the utilities of one query become training targets.

Utilities have no common scale across queries (nats, bits, probabilities, negative entropies), so every rule
looks at one query alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from utilitune.errors import ConfigError

Vector = NDArray[np.float64]


def _min_max(utilities: Vector, temperature: float) -> Vector:
    del temperature
    low, high = utilities.min(), utilities.max()
    return np.zeros_like(utilities) if high == low else (utilities - low) / (high - low)


def _z_score(utilities: Vector, temperature: float) -> Vector:
    del temperature
    spread = utilities.std()
    return np.zeros_like(utilities) if spread == 0 else (utilities - utilities.mean()) / spread


def _rank(utilities: Vector, temperature: float) -> Vector:
    del temperature
    if len(utilities) == 1:
        return np.zeros(1)
    below = (utilities[None, :] < utilities[:, None]).sum(axis=1)
    equal = (utilities[None, :] == utilities[:, None]).sum(axis=1) - 1
    # Equal utilities share the mean of the ranks that they take up.
    ranks: Vector = (below + equal / 2) / (len(utilities) - 1)
    return ranks


def _softmax(utilities: Vector, temperature: float) -> Vector:
    exponentials = np.exp((utilities - utilities.max()) / temperature)
    shares: Vector = exponentials / exponentials.sum()
    return shares


def _as_is(utilities: Vector, temperature: float) -> Vector:
    del temperature
    return utilities.copy()


@dataclass(frozen=True)
class Rescale:
    """One rule.

    Attributes:
        apply: ``(utilities, temperature) -> targets``, both of shape ``(candidates,)``.
        low: Smallest target it can give.
        high: Largest target it can give.
    """

    apply: Callable[[Vector, float], Vector]
    low: float
    high: float


RESCALES: dict[str, Rescale] = {
    "min-max": Rescale(_min_max, 0.0, 1.0),
    "z-score": Rescale(_z_score, -np.inf, np.inf),
    "rank": Rescale(_rank, 0.0, 1.0),
    "softmax": Rescale(_softmax, 0.0, 1.0),
    "none": Rescale(_as_is, -np.inf, np.inf),
}


def rescale(utilities: Sequence[float], rule: str, temperature: float = 1.0) -> tuple[float, ...]:
    """Turn the utilities of one query into targets.

    Args:
        utilities: Finite numbers, one a candidate.
        rule: ``min-max`` to [0, 1]; ``z-score`` (population standard deviation); ``rank`` to [0, 1], the best
            1, ties share their mean; ``softmax`` of ``utilities / temperature``; ``none``.
        temperature: For ``softmax``, > 0, in the utility's unit.

    Returns:
        One target a candidate. Without variance: zeros (``softmax``: equal shares; ``rank``: all 0.5).

    Raises:
        ConfigError: For an unknown rule or a temperature that is not positive.
    """
    if rule not in RESCALES:
        raise ConfigError(f"unknown rescale rule {rule!r}; known: {', '.join(RESCALES)}")
    if not temperature > 0:
        raise ConfigError(f"temperature of rescaling is {temperature}; it must be > 0")
    if len(utilities) == 0:
        return ()
    return tuple(float(value) for value in RESCALES[rule].apply(np.asarray(utilities, np.float64), temperature))
