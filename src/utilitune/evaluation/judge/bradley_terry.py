"""Several systems on one scale, from who beat whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from utilitune.errors import DataError
from utilitune.evaluation.judge.interval import SEED, Interval
from utilitune.evaluation.judge.tally import Tally

RESAMPLES = 1000
VIRTUAL = 0.5
_STEPS = 20_000
_CLOSE = 1e-10
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Strength:
    """One system's place.

    Attributes:
        system: Its name.
        strength: Log-odds scale, mean 0 over the systems.
        interval: 95 % bootstrap interval over questions; ``None`` below two questions.
    """

    system: str
    strength: float
    interval: Interval | None


@dataclass(frozen=True)
class BradleyTerry:
    """The strengths of all systems.

    Attributes:
        strengths: Strongest first.
        virtual_ties: Whether a tie had to be added to each pair, because some system (or group of systems) won or lost
            everything and its strength would be infinite.
        questions: Questions that they rest on.
    """

    strengths: tuple[Strength, ...]
    virtual_ties: bool
    questions: int


def fit_strengths(wins: Floats | Sequence[Sequence[float]]) -> tuple[Floats, bool]:
    """Fit ``P(i beats j) = e^s_i / (e^s_i + e^s_j)`` by maximum likelihood.

    Source: Bradley and Terry 1952, by Hunter's minorisation steps (Annals of Statistics 32, 2004).

    Args:
        wins: ``(n, n)``, or ``(draws, n, n)`` for several fits at once: how often the row's system beat the column's, a
            tie counting half for each. The diagonal is ignored.

    Returns:
        Strengths ``(n,)`` or ``(draws, n)`` with mean 0, and whether the likelihood of (one of) the tables has no
        maximum, so that half a win was added to each side of every pair there.
    """
    given = np.asarray(wins, dtype=float)
    table = np.array(given.reshape(-1, *given.shape[-2:]))
    size = table.shape[-1]
    table[:, range(size), range(size)] = 0
    open_ended = ~_has_maximum(table)
    table[open_ended] += VIRTUAL * (1 - np.eye(size))
    games = table + table.transpose(0, 2, 1)
    won = table.sum(2)
    scale = np.ones(won.shape)
    for _ in range(_STEPS):
        new = won / (games / (scale[:, :, None] + scale[:, None, :])).sum(2)
        new /= np.exp(np.log(new).mean(1, keepdims=True))
        moved = np.abs(np.log(new / scale)).max()
        scale = new
        if moved < _CLOSE:
            break
    return np.log(scale).reshape(given.shape[:-1]), bool(open_ended.any())


def bradley_terry(
    tallies: Sequence[Tally], convention: str = "strict", *, resamples: int = RESAMPLES, seed: int = SEED
) -> BradleyTerry:
    """Put systems on one scale by one dimension; a tie counts half a win for each.

    Args:
        tallies: Tallies of one dimension.
        convention: How wins are counted.
        resamples: Bootstrap draws of questions for the intervals.
        seed: Seed of the draws.

    Returns:
        Strengths, strongest first.

    Raises:
        ConfigError: For an unknown convention.
        DataError: If there is nothing to count, or the tallies are of several dimensions.
    """
    if len({each.dimension for each in tallies}) != 1:
        raise DataError(f"found {len({each.dimension for each in tallies})} dimensions; fit one at a time")
    systems = list(dict.fromkeys(name for each in tallies for name in (each.system_a, each.system_b)))
    at = {name: place for place, name in enumerate(systems)}
    tables: dict[str, Floats] = {}
    for each in tallies:
        a, b = at[each.system_a], at[each.system_b]
        for query_id, worth in each.worths(convention).items():
            table = tables.setdefault(query_id, np.zeros((len(systems), len(systems))))
            table[a, b] += worth.wins_a + worth.ties / 2
            table[b, a] += worth.wins_b + worth.ties / 2
    if not tables:
        raise DataError(f"no question counts by the convention {convention!r}: there are no verdicts to rank by")
    stacked = np.stack(list(tables.values()))
    strengths, virtual = fit_strengths(stacked.sum(0))
    intervals: list[Interval | None] = [None] * len(systems)
    if len(stacked) > 1:
        generator = np.random.default_rng(seed)
        weights = generator.multinomial(len(stacked), np.full(len(stacked), 1 / len(stacked)), resamples)
        drawn, _ = fit_strengths(np.tensordot(weights, stacked, axes=1))
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        intervals = [(float(lower), float(upper)) for lower, upper in zip(low, high, strict=True)]
    rows = [Strength(name, float(strengths[place]), intervals[place]) for name, place in at.items()]
    rows.sort(key=lambda row: -row.strength)
    return BradleyTerry(tuple(rows), virtual, len(stacked))


def _has_maximum(table: Floats) -> NDArray[np.bool_]:
    """Tell for each table whether every system can be reached from every other along wins (Ford 1957)."""
    size = table.shape[-1]
    reach = (table > 0) | np.eye(size, dtype=bool)
    for _ in range(max(1, size.bit_length())):
        reach = np.matmul(reach, reach)
    return np.asarray(reach.all(axis=(1, 2)))
