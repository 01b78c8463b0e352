"""Classical measures as their mean over all orders of equal scores, in closed form (McSherry & Najork, ECIR 2008).

A ranking is a list of groups of equal scores; every order inside a group is equally likely. With ``R`` relevant
passages above a group of ``n``, of which ``r`` are relevant:

* P, R, nDCG: each place of the group holds the group's mean gain;
* Success: 1 - C(n - r, m) / C(n, m) where the cut-off leaves ``m`` places of the group;
* RR: the first relevant passage of the group stands at place j with C(n - j, r - 1) / C(n, r);
* AP: place j is relevant with r / n, and then expects R + 1 + (j - 1)(r - 1) / (n - 1) relevant up to itself.

Without ties each equals the plain measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from utilitune.errors import ConfigError
from utilitune.evaluation.measures import Measure
from utilitune.evaluation.ranking import ranking
from utilitune.records.run import Qrels, Run

TIES = {
    "trec": "",
    "expected": "Ties: each value is the mean over all orders of equal scores (McSherry & Najork 2008).",
}
"""What is done with equal scores, and what a table says of it."""


@dataclass(frozen=True)
class TieGroup:
    """Passages of one query with the same score.

    Attributes:
        above: Passages that score higher.
        gains: One gain a passage, >= 0; relevant ones above 0.
    """

    above: int
    gains: tuple[float, ...]

    @property
    def n(self) -> int:
        """Passages."""
        return len(self.gains)

    @property
    def relevant(self) -> int:
        """Passages with a gain above 0."""
        return sum(gain > 0 for gain in self.gains)

    def places(self, cutoff: int | None) -> int:
        """Return how many of the group's places a cut-off leaves."""
        return self.n if cutoff is None else max(0, min(self.n, cutoff - self.above))


Groups = Sequence[TieGroup]


def check_ties(ties: str, measures: Sequence[Measure]) -> None:
    """Refuse an unknown name, and measures without a closed form.

    Args:
        ties: A name in ``TIES``.
        measures: What is to be computed.

    Raises:
        ConfigError: Naming them, and what is known.
    """
    if ties not in TIES:
        raise ConfigError(f"ties={ties!r} is unknown; known: {', '.join(TIES)}")
    odd = [measure.name for measure in measures if measure.kind == "utility"]
    if ties == "expected" and odd:
        raise ConfigError(
            f"ties='expected' has no closed form for {', '.join(odd)}; known: {', '.join(EXPECTED)}. Score them in a "
            "call of their own, with ties='trec'"
        )


def tie_groups(scored: Sequence[tuple[str, float]], gains: Mapping[str, float]) -> list[TieGroup]:
    """Return a ranking as groups of equal scores, best first; scores that are not finite are one group, the last.

    Args:
        scored: ``(passage_id, score)`` pairs in any order; of a repeated passage the best place counts.
        gains: ``{passage_id: gain}``, 0 for others; negative gains count 0.

    Returns:
        The groups.
    """
    groups: list[TieGroup] = []
    above = 0
    for _, equal in groupby(ranking(scored), key=lambda pair: None if math.isnan(pair[1]) else pair[1]):
        groups.append(TieGroup(above, tuple(max(gains.get(passage_id, 0.0), 0.0) for passage_id, _ in equal)))
        above += groups[-1].n
    return groups


def expected_over_ties(
    run: Run, qrels: Qrels, measures: Sequence[Measure], relevant_from: float
) -> dict[str, dict[str, float]]:
    """Compute classical measures for every judged query, under the same contract as ``classical``.

    Args:
        run: The run, its lists in any order.
        qrels: Judgements; the queries to score, all of them.
        measures: Measures of kind ``"classical"``.
        relevant_from: Grade from which a passage is relevant; nDCG reads the grades as gains.

    Returns:
        ``{measure name: {query_id: value}}``, every value in [0, 1]; a query that the run lacks counts 0. nDCG lacks
        the queries without a positive gain.
    """
    found: dict[str, dict[str, float]] = {measure.name: {} for measure in measures}
    for query_id, grades in qrels.items():
        binary = {passage_id: float(grade >= relevant_from) for passage_id, grade in grades.items()}
        gains = {passage_id: max(grade, 0.0) for passage_id, grade in grades.items()}
        scored = run.get(query_id, [])
        for graded, own in ((False, binary), (True, gains)):
            groups = tie_groups(scored, own)
            judged = sorted((gain for gain in own.values() if gain > 0), reverse=True)
            for measure in measures:
                if (measure.family == "nDCG") is graded and (judged or not graded):
                    value = EXPECTED[measure.family](groups, judged, measure.cutoff) if judged else 0.0
                    # Rounding can put a perfect order a hair above 1.
                    found[measure.name][query_id] = min(value, 1.0)
    return found


def _hits(groups: Groups, cutoff: int | None) -> float:
    return math.fsum(group.places(cutoff) * group.relevant / group.n for group in groups)


def _precision(groups: Groups, judged: Sequence[float], cutoff: int | None) -> float:
    return _hits(groups, cutoff) / (cutoff or 1)


def _recall(groups: Groups, judged: Sequence[float], cutoff: int | None) -> float:
    return _hits(groups, cutoff) / len(judged)


def _success(groups: Groups, judged: Sequence[float], cutoff: int | None) -> float:
    group = next((group for group in groups if group.relevant), None)
    if group is None:
        return 0.0
    places = group.places(cutoff)
    return 1.0 - math.comb(group.n - group.relevant, places) / math.comb(group.n, places)


def _reciprocal_rank(groups: Groups, judged: Sequence[float], cutoff: int | None) -> float:
    group = next((group for group in groups if group.relevant), None)
    if group is None:
        return 0.0
    first = enumerate(_first_at(group.n, group.relevant), start=group.above + 1)
    return math.fsum(chance / rank for rank, chance in first if cutoff is None or rank <= cutoff)


def _first_at(n: int, relevant: int) -> Iterator[float]:
    """Yield how likely the first of ``relevant`` among ``n`` stands at place 1, 2 and so on."""
    chance = relevant / n
    for place in range(1, n - relevant + 2):
        yield chance
        chance *= (n - place - relevant + 1) / (n - place) if place < n else 0.0


def _average_precision(groups: Groups, judged: Sequence[float], cutoff: int | None) -> float:
    terms: list[float] = []
    before = 0
    for group in groups:
        share, again = group.relevant / group.n, (group.relevant - 1) / max(1, group.n - 1)
        terms += [
            share * (before + 1 + (place - 1) * again) / (group.above + place)
            for place in range(1, group.places(cutoff) + 1)
        ]
        before += group.relevant
    return math.fsum(terms) / len(judged)


def _ndcg(groups: Groups, judged: Sequence[float], cutoff: int | None) -> float:
    dcg = math.fsum(
        math.fsum(group.gains) / group.n / math.log2(group.above + place + 1)
        for group in groups
        for place in range(1, group.places(cutoff) + 1)
    )
    return dcg / math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(judged[:cutoff], start=1))


EXPECTED: dict[str, Callable[[Groups, Sequence[float], int | None], float]] = {
    "RR": _reciprocal_rank,
    "nDCG": _ndcg,
    "R": _recall,
    "P": _precision,
    "Success": _success,
    "AP": _average_precision,
}
"""By family: from the groups, the judged gains above 0 (largest first) and the cut-off to the expected value."""
