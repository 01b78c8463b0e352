"""UDCGθ of a study's lists, each by a fit that has not seen its question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from utilitune.errors import DataError
from utilitune.evaluation.clusters import Clusters
from utilitune.evaluation.study.correlation.rank import Draws, Estimate
from utilitune.evaluation.study.correlation.ranked_list import RankedList
from utilitune.evaluation.udcg_theta import UdcgTheta

FOLDS = 5
DEALS = 20
"""How often answers are dealt to other questions to see what a fit finds where nothing is to be found."""


def folds_of(right: Mapping[str, float], folds: int = FOLDS) -> dict[str, int]:
    """Deal questions into folds that hold right answers in equal shares.

    Unequal shares would give the fold with more right answers the fit with the lower bias, and so a correlation below
    0 where the metric says nothing (ρ -.10 on average over 60 lists of noise; dealt like this, -.01).

    Args:
        right: Share of right answers by question (or conversation), in a fixed order.
        folds: Folds, >= 2; no more than there are questions.

    Returns:
        Question (or conversation) -> number of its fold.
    """
    count = min(folds, len(right))
    dealt = sorted(right, key=lambda query_id: right[query_id])
    return {query_id: place % count for place, query_id in enumerate(dealt)}


def theta_scores(
    lists: Sequence[RankedList], folds: int = FOLDS, *, strength: float = 1.0, clusters: Clusters | None = None
) -> tuple[list[float | None], str]:
    """Score lists of one length by UDCGθ, cross-validated over whole questions.

    Args:
        lists: Lists of one ``k``, all systems; those of one question are in one fold.
        folds: Folds, >= 2.
        strength: As in ``UdcgTheta.fit``.
        clusters: Conversation of each question, which are in one fold; each for itself when ``None``.

    Returns:
        One probability a list; ``None`` for all, and why, where a fit has nothing to learn from.
    """
    units = [_unit(ranked.query_id, clusters) for ranked in lists]
    by_unit: dict[str, list[float]] = {}
    for unit, ranked in zip(units, lists, strict=True):
        by_unit.setdefault(unit, []).append(float(ranked.right))
    fold_of = folds_of({unit: fmean(own) for unit, own in by_unit.items()}, folds)
    numbers = [fold_of[unit] for unit in units]
    scores: list[float | None] = [None] * len(lists)
    for fold in sorted(set(numbers)):
        seen = [ranked for ranked, number in zip(lists, numbers, strict=True) if number != fold]
        try:
            fitted = fit_theta(seen, strength=strength)
        except DataError as error:
            return [None] * len(lists), f"a fold cannot be fitted: {error}"
        for place, ranked in enumerate(lists):
            if numbers[place] == fold:
                scores[place] = fitted(ranked.utilities, ranked.relevant)
    return scores, ""


def theta_by_chance(
    lists: Sequence[RankedList],
    folds: int = FOLDS,
    *,
    deals: int = DEALS,
    seed: int,
    clusters: Clusters | None = None,
) -> Estimate:
    """Return the mean ρ of UDCGθ over list lengths when every question has the answers of another one.

    A fit that is tested on questions which it has not seen leans below 0 where nothing is to be found, the more so the
    more weights it has a right answer; and the intervals of ρ take the fits as given. This says how far chance goes.

    Args:
        lists: The lists of a study, all lengths and systems.
        folds: As ``theta_scores``.
        deals: Deals, >= 1.
        seed: Seed of the deals.
        clusters: As ``theta_scores``; answers of a conversation are then dealt in a row, so that they stay together.

    Returns:
        Mean over the deals with the least and the largest of them; no number where no fit is possible.
    """
    questions = sorted({ranked.query_id for ranked in lists})
    right = {(ranked.query_id, ranked.system, ranked.k): ranked.right for ranked in lists}
    lengths = sorted({ranked.k for ranked in lists})
    members: dict[str, list[str]] = {}
    for query_id in questions:
        members.setdefault(_unit(query_id, clusters), []).append(query_id)
    units = sorted(members)
    rng = np.random.default_rng(seed)
    means = []
    for _ in range(deals):
        order = rng.permutation(units).tolist()
        other = dict(zip(_in_a_row(members, units), _in_a_row(members, order), strict=True))
        dealt = [
            replace(ranked, right=right[key])
            for ranked in lists
            if (key := (other[ranked.query_id], ranked.system, ranked.k)) in right
        ]
        found = np.array([_rho([ranked for ranked in dealt if ranked.k == k], folds, clusters) for k in lengths])
        if np.isfinite(found).any():
            means.append(float(np.nanmean(found)))
    return Estimate(fmean(means), min(means), max(means)) if means else Estimate(None)


def _unit(query_id: str, clusters: Clusters | None) -> str:
    return query_id if clusters is None else clusters[query_id]


def _in_a_row(members: Mapping[str, list[str]], units: Sequence[str]) -> list[str]:
    return [query_id for unit in units for query_id in members[unit]]


def _rho(rows: Sequence[RankedList], folds: int, clusters: Clusters | None) -> float:
    """Correlate cross-validated scores with right or wrong; NaN where there are none or all are alike."""
    both = [
        (score, each.right)
        for score, each in zip(theta_scores(rows, folds, clusters=clusters)[0], rows, strict=True)
        if score is not None
    ]
    # Draws of a single question: the data alone.
    sampled = Draws(1).correlate([score for score, _ in both], [right for _, right in both], [0] * len(both))
    return float(sampled.spearman[0])


def fit_theta(lists: Sequence[RankedList], *, strength: float = 1.0, generator: str = "") -> UdcgTheta:
    """Fit UDCGθ on lists of one length.

    Args:
        lists: The lists.
        strength: As in ``UdcgTheta.fit``.
        generator: As in ``UdcgTheta.fit``.

    Returns:
        The fit.

    Raises:
        DataError: If there are no lists or no passages, or all answers are alike.
    """
    return UdcgTheta.fit(
        [ranked.utilities for ranked in lists],
        [ranked.relevant for ranked in lists],
        [ranked.right for ranked in lists],
        k=max((ranked.k for ranked in lists), default=0),
        strength=strength,
        generator=generator,
    )
