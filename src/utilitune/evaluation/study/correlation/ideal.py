"""Ideal rankings: the best list of each question by several rules, and what the generator makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import fmean

from utilitune.errors import ConfigError
from utilitune.evaluation.clusters import Clusters
from utilitune.evaluation.significance import SEED, Significance, significance_family
from utilitune.evaluation.study.correlation.rank import Estimate, by_question, share
from utilitune.evaluation.study.correlation.reader import Item, Reader, key_of
from utilitune.records.passage import Passage
from utilitune.records.query import Query

RETRIEVED, BINARY = "as retrieved", "binary relevance"


@dataclass(frozen=True)
class Candidate:
    """One passage that could be shown.

    Attributes:
        passage: The passage.
        relevant: Whether it is relevant.
        utility: ``u``, ``None`` where there is none.
        gain: 1.0 where the answer from it alone is right, else 0.0; ``None`` where unknown.
        others: Further utilities, by name.
    """

    passage: Passage
    relevant: bool
    utility: float | None
    gain: float | None
    others: Mapping[str, float | None] = field(default_factory=dict)


Rule = Callable[[Candidate, float], float | None]
"""What a candidate is worth, and γ -> its number; ``None`` sorts last."""


def _worth(candidate: Candidate, gamma: float) -> float | None:
    if candidate.utility is None:
        return None
    return candidate.utility if candidate.relevant else -gamma * candidate.utility


RULES: dict[str, Rule] = {
    RETRIEVED: lambda candidate, gamma: 0.0,
    BINARY: lambda candidate, gamma: float(candidate.relevant),
    "utility (UDCG)": _worth,
    "u alone": lambda candidate, gamma: candidate.utility,
    "eRAG": lambda candidate, gamma: candidate.gain,
}


@dataclass(frozen=True)
class Ideal:
    """What the generator makes of the best lists by one rule.

    Attributes:
        rule: Name of the rule.
        right: Share of right answers.
        wrong: Share of wrong answers that are no abstentions.
        abstained: Share of abstentions.
        relevant: Mean number of relevant passages in the list.
        same: Questions whose list is the one by binary relevance.
        right_versus: Right answers against those by binary relevance, by question; ``None`` for that rule itself.
        wrong_versus: Wrong answers against those by binary relevance.
    """

    rule: str
    right: Estimate
    wrong: Estimate
    abstained: Estimate
    relevant: float | None
    same: int
    right_versus: Significance | None
    wrong_versus: Significance | None


@dataclass(frozen=True)
class IdealStudy:
    """What ``study_ideal`` returns.

    Attributes:
        k: Passages a list.
        questions: Questions whose answer is known by every rule.
        rules: One a rule.
        counts: What fell short, by kind.
    """

    k: int
    questions: int
    rules: tuple[Ideal, ...]
    counts: dict[str, int]


def study_ideal(
    candidates: Sequence[tuple[Query, Sequence[Candidate]]],
    reader: Reader,
    *,
    k: int,
    gamma: float,
    seed: int = SEED,
    clusters: Clusters | None = None,
) -> IdealStudy:
    """Let the generator answer from the best ``k`` candidates by each rule.

    Rules: the retrievers' own order; relevant passages first; highest ``u`` of relevant and least of irrelevant
    passages (the order that UDCG is largest for); highest ``u``; passages that alone give a right answer (eRAG, which
    sees the gold answers); highest number of each further utility. Equal numbers keep the retrievers' order.

    Args:
        candidates: Questions with their candidates in the retrievers' order.
        reader: Asks the generator.
        k: Passages a list, >= 1.
        gamma: UDCG's weight of distraction.
        seed: Seed of intervals and tests.
        clusters: Conversation of each question, taken whole by both; each for itself when ``None``.

    Returns:
        Right, wrong and abstained by rule.

    Raises:
        ConfigError: If ``k`` is below 1.
    """
    if k < 1:
        raise ConfigError(f"ideal: k is {k}; expected at least 1 passage")
    names = dict.fromkeys(name for _, own in candidates for candidate in own for name in candidate.others)
    rules = {**RULES, **{f"{name} alone": _other(name) for name in names}}
    picked = [
        (query, {name: best(own, rule, k, gamma) for name, rule in rules.items()}) for query, own in candidates if own
    ]
    reader.read([_item(query, own) for query, lists in picked for own in lists.values()])
    known = [
        (query, lists)
        for query, lists in picked
        if all(key_of(_item(query, own)) in reader.outcomes for own in lists.values())
    ]
    found = {name: _outcomes(known, name, reader) for name in rules}
    others = [name for name in rules if name != BINARY]
    ids = [query.id for query, _ in known]
    pairs = [
        (by_question(ids, found[BINARY][kind], clusters), by_question(ids, found[name][kind], clusters))
        for name in others
        for kind in ("right", "wrong")
    ]
    tests = iter(significance_family(pairs, clusters=clusters, seed=seed))
    versus = {name: (next(tests), next(tests)) for name in others}
    counts = {
        "ideal: questions without candidates": len(candidates) - len(picked),
        f"ideal: questions with fewer than {k} candidates": sum(0 < len(own) < k for _, own in candidates),
        "ideal: questions with an answer missing": len(picked) - len(known),
    }
    return IdealStudy(
        k,
        len(known),
        tuple(_ideal(name, known, found[name], versus.get(name), seed, clusters) for name in rules),
        counts,
    )


def best(candidates: Sequence[Candidate], rule: Rule, k: int, gamma: float) -> list[Candidate]:
    """Return the best ``k`` candidates by a rule: equal ones in the order given, those without a number last."""
    numbers = [rule(candidate, gamma) for candidate in candidates]
    order = sorted(range(len(candidates)), key=lambda place: _descending(numbers[place]))
    return [candidates[place] for place in order[:k]]


def _descending(number: float | None) -> float:
    return inf if number is None else -number


def _other(name: str) -> Rule:
    return lambda candidate, gamma: candidate.others.get(name)


def _item(query: Query, picked: Sequence[Candidate]) -> Item:
    return query, tuple(candidate.passage for candidate in picked)


Picked = Sequence[tuple[Query, Mapping[str, list[Candidate]]]]


def _outcomes(known: Picked, rule: str, reader: Reader) -> dict[str, list[float]]:
    outcomes = [reader.outcomes[key_of(_item(query, lists[rule]))] for query, lists in known]
    return {
        "right": [float(each.right) for each in outcomes],
        "wrong": [float(not each.right and not each.abstained) for each in outcomes],
        "abstained": [float(each.abstained) for each in outcomes],
    }


def _ideal(
    name: str,
    known: Picked,
    found: Mapping[str, list[float]],
    versus: tuple[Significance, Significance] | None,
    seed: int,
    clusters: Clusters | None,
) -> Ideal:
    ids = [query.id for query, _ in known]
    relevant = [sum(candidate.relevant for candidate in lists[name]) for _, lists in known]
    return Ideal(
        rule=name,
        right=share(found["right"], seed, ids=ids, clusters=clusters),
        wrong=share(found["wrong"], seed, ids=ids, clusters=clusters),
        abstained=share(found["abstained"], seed, ids=ids, clusters=clusters),
        relevant=fmean(relevant) if relevant else None,
        same=sum(lists[name] == lists[BINARY] for _, lists in known),
        right_versus=versus[0] if versus else None,
        wrong_versus=versus[1] if versus else None,
    )
