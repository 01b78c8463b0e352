"""From the numbers of a signal study to what each utility is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pstdev

from utilitune.evaluation.significance import SEED, Significance, holm, significance
from utilitune.evaluation.study.separation import Separation, separation
from utilitune.evaluation.study.signal_measures import Group, reciprocal_rank, share_beaten
from utilitune.evaluation.study.signal_study import PairRow, UtilitySignal

Questions = Mapping[str, Sequence[PairRow]]


def score_utilities(
    names: Sequence[str],
    pairs: Sequence[PairRow],
    left_out: Mapping[str, Mapping[str, int]] | None = None,
    *,
    seed: int = SEED,
) -> list[UtilitySignal]:
    """Score utilities as labels.

    Args:
        names: Utilities; the first is what the others are compared with.
        pairs: Every (question, passage) with its numbers; a missing number leaves the pair out.
        left_out: Labels without a number, by utility and status.
        seed: Seed of intervals and tests.

    Returns:
        One signal a utility.
    """
    questions: dict[str, list[PairRow]] = {}
    for row in pairs:
        questions.setdefault(row.query_id, []).append(row)
    signals = [_signal(name, questions, (left_out or {}).get(name, {}), seed) for name in names]
    corrected = holm([signal.hard.p for signal in signals])
    return [
        replace(signal, p_holm=p, versus_first=_versus(names[0], signal.name, questions, seed) if place else None)
        for place, (signal, p) in enumerate(zip(signals, corrected, strict=True))
    ]


def _signal(name: str, questions: Questions, left_out: Mapping[str, int], seed: int) -> UtilitySignal:
    rows = [row for own in questions.values() for row in own]
    numbers = [row.utilities[name] for row in rows if name in row.utilities]
    return UtilitySignal(
        name=name,
        hard=share_beaten(list(_groups(questions, name, ("hard",)).values()), seed=seed),
        random=share_beaten(list(_groups(questions, name, ("random",)).values()), seed=seed),
        rank=reciprocal_rank(list(_groups(questions, name, ("hard", "random")).values()), seed=seed),
        gold=_separation(questions, name, lambda row: row.role == "gold", seed),
        right=_separation(questions, name, lambda row: row.right, seed),
        versus_first=None,
        p_holm=1.0,
        n=len(numbers),
        mean=fmean(numbers) if numbers else None,
        std=pstdev(numbers) if numbers else None,
        left_out=dict(left_out),
        questions_left_out=sum(row.role == "gold" and name not in row.utilities for row in rows),
    )


def _groups(questions: Questions, name: str, roles: Sequence[str]) -> dict[str, Group]:
    """Return gold's number and the others' by question; questions whose gold or others have none are not there."""
    groups: dict[str, Group] = {}
    for query_id, rows in questions.items():
        scored = [row for row in rows if name in row.utilities]
        gold = next((row.utilities[name] for row in scored if row.role == "gold"), None)
        others = [row.utilities[name] for row in scored if row.role in roles]
        if gold is not None and others:
            groups[query_id] = (gold, others)
    return groups


def _separation(questions: Questions, name: str, kind: Callable[[PairRow], bool | None], seed: int) -> Separation:
    return separation(
        [
            [(row.utilities[name], flag) for row in rows if name in row.utilities and (flag := kind(row)) is not None]
            for rows in questions.values()
        ],
        seed=seed,
    )


def _versus(first: str, name: str, questions: Questions, seed: int) -> Significance | None:
    """Compare two utilities' shares over hard distractors on the questions that both have."""
    shares = []
    for each in (first, name):
        groups = _groups(questions, each, ("hard",))
        shares.append(dict(zip(groups, share_beaten(list(groups.values()), resamples=1).per_question, strict=True)))
    common = [query_id for query_id in shares[0] if query_id in shares[1]]
    if not common:
        return None
    before, after = ([own[query_id] for query_id in common] for own in shares)
    return significance(before, after, seed=seed)
