"""UDCG: utility and distraction of a ranking for a reading LLM (arXiv 2510.21440)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from utilitune.errors import ConfigError
from utilitune.records.run import Qrels

GAMMA = 1 / 3
Unjudged = Literal["irrelevant", "skip"]
HARD = 0.8
"""Utility above which an irrelevant passage is a hard distractor (arXiv 2510.21440)."""
UNJUDGED: tuple[Unjudged, ...] = get_args(Unjudged)


def udcg(
    utilities: Sequence[float | None],
    relevant: Sequence[bool | int | float | None],
    gamma: float = GAMMA,
    raw: bool = False,
) -> float:
    """Compute UDCG of one ranked list.

    ``σ((1/k) Σ_i [relevant: u_i; irrelevant: −γ u_i])`` with ``k = len(utilities)`` and
    ``u_i = 1 − P(abstention | question, passage_i)``.

    A passage whose utility or label is missing (``None``, NaN) is left out of the sum and still counted in
    ``k``, as the reference implementation does.

    Args:
        utilities: Utilities in rank order, each in [0, 1] (a logit or an entropy is no ``u``, and takes the
            value out of the range below).
        relevant: Labels in the same order: true or positive = relevant, false, 0 or negative = irrelevant.
        gamma: Weight of distraction.
        raw: Return the mean before the sigmoid.

    Returns:
        A value in [σ(−γ), σ(1)] (0.41743 to 0.73106 at γ = 1/3); raw: in [−γ, 1]. An empty list gives 0.

    Raises:
        ValueError: If the two lists differ in length.
    """
    if len(utilities) != len(relevant):
        raise ValueError(f"{len(utilities)} utilities but {len(relevant)} relevance labels; give one of each a passage")
    if not utilities:
        return 0.0
    total = math.fsum(
        float(u) if label > 0 else -gamma * float(u)
        for u, label in zip(utilities, relevant, strict=True)
        if u is not None and label is not None and math.isfinite(u) and math.isfinite(label)
    )
    mean = total / len(utilities)
    return mean if raw else sigmoid(mean)


def sigmoid(value: float) -> float:
    """Return ``1 / (1 + e^-value)`` without overflow."""
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    return math.exp(value) / (1 + math.exp(value))


def check_gamma(gamma: float) -> None:
    """Refuse a weight of distraction that is none.

    Args:
        gamma: The weight.

    Raises:
        ConfigError: If it is not a finite number >= 0.
    """
    if not 0 <= gamma < math.inf:
        raise ConfigError(f"gamma is {gamma}; expected UDCG's weight of distraction, a number of at least 0")


def as_unjudged(name: str) -> Unjudged:
    """Return the view of passages without a judgement that a name stands for.

    Args:
        name: ``"irrelevant"`` or ``"skip"``.

    Returns:
        The same.

    Raises:
        ConfigError: For any other name.
    """
    for known in UNJUDGED:
        if name == known:
            return known
    raise ConfigError(f"unjudged is {name!r}; expected one of: {', '.join(UNJUDGED)}")


@dataclass
class UdcgScores:
    """UDCG of every judged query.

    Attributes:
        values: ``{query_id: UDCG}``; 0 for a missing query or an empty list.
        raw: The same before the sigmoid.
        distraction: Sum of the utilities of irrelevant passages over the passages there, as UDCG's sum holds it before
            γ; 0 where there is none.
        hard: Share of the passages there that are irrelevant and have ``u > 0.8``.
        passages: Passages at the first k ranks, in all.
        missing_utilities: Of these, without a finite utility (left out of the sum, counted in k).
        unjudged_passages: Of these, without a judgement.
        outside_unit: Utilities outside [0, 1], where the stated range does not hold.
    """

    values: dict[str, float] = field(default_factory=dict)
    raw: dict[str, float] = field(default_factory=dict)
    distraction: dict[str, float] = field(default_factory=dict)
    hard: dict[str, float] = field(default_factory=dict)
    passages: int = 0
    missing_utilities: int = 0
    unjudged_passages: int = 0
    outside_unit: int = 0


def passages_at_k(
    passage_ids: Sequence[str],
    utilities: Mapping[str, float],
    grades: Mapping[str, float],
    *,
    relevant_from: float = 1.0,
    unjudged: Unjudged = "irrelevant",
) -> tuple[list[float | None], list[bool | None]]:
    """Look up utilities and labels of a ranked list.

    Args:
        passage_ids: Passages in rank order.
        utilities: Utilities of this query's passages.
        grades: Judgements of this query's passages.
        relevant_from: Grade from which a passage is relevant.
        unjudged: What a passage without a judgement is: ``"irrelevant"``, as in every classical measure, or
            ``"skip"`` (no label), as in the reference, whose every passage is judged.

    Returns:
        Utilities (``None`` where there is no finite one) and labels (``None`` where there is none).
    """
    values: list[float | None] = []
    for passage_id in passage_ids:
        value = utilities.get(passage_id)
        values.append(value if value is not None and math.isfinite(value) else None)
    default = False if unjudged == "irrelevant" else None
    return values, [grades[pid] >= relevant_from if pid in grades else default for pid in passage_ids]


def udcg_at_k(
    run: Mapping[str, Sequence[tuple[str, float]]],
    utilities: Mapping[str, Mapping[str, float]],
    qrels: Qrels,
    k: int,
    *,
    gamma: float = GAMMA,
    relevant_from: float = 1.0,
    unjudged: Unjudged = "irrelevant",
) -> UdcgScores:
    """Compute UDCG of the first ``k`` passages of every judged query.

    Lists are re-ranked by the one tie rule (``ranking``). A list shorter than ``k`` is divided by its own
    length.

    Args:
        run: ``{query_id: [(passage_id, score), ...]}``.
        utilities: ``{query_id: {passage_id: u}}``, for instance ``Labels.table("abstention")``.
        qrels: Judgements; its queries are the ones scored.
        k: Ranks that count, >= 1.
        gamma: Weight of distraction.
        relevant_from: Grade from which a passage is relevant.
        unjudged: As in ``passages_at_k``.

    Returns:
        Values and counts.

    Raises:
        ValueError: If ``k`` is below 1.
    """
    from utilitune.evaluation.ranking import ranking

    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1")
    check_gamma(gamma)
    unjudged = as_unjudged(unjudged)
    scores = UdcgScores()
    for query_id, grades in qrels.items():
        ids = [passage_id for passage_id, _ in ranking(run.get(query_id, ()))[:k]]
        values, labels = passages_at_k(
            ids, utilities.get(query_id, {}), grades, relevant_from=relevant_from, unjudged=unjudged
        )
        scores.values[query_id] = udcg(values, labels, gamma)
        scores.raw[query_id] = udcg(values, labels, gamma, raw=True)
        misleading = [u for u, label in zip(values, labels, strict=True) if u is not None and label is False]
        scores.distraction[query_id] = math.fsum(misleading) / len(ids) if ids else 0.0
        scores.hard[query_id] = sum(u > HARD for u in misleading) / len(ids) if ids else 0.0
        scores.passages += len(ids)
        scores.missing_utilities += values.count(None)
        scores.unjudged_passages += sum(passage_id not in grades for passage_id in ids)
        scores.outside_unit += sum(1 for value in values if value is not None and not 0 <= value <= 1)
    return scores
