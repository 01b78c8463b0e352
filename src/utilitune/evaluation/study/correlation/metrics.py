"""Metrics of a correlation study, by the names of its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum

from utilitune.evaluation.classical import classical
from utilitune.evaluation.measures import parse_measures
from utilitune.evaluation.study.correlation.ranked_list import RankedList
from utilitune.evaluation.udcg import udcg
from utilitune.records.label import Labels
from utilitune.records.run import Qrels
from utilitune.scoring.list_measures import LIST_MEASURES, ListMeasure

CLASSICAL = {"Precision": "P", "Recall": "R", "HITS": "Success", "MAP": "AP", "MRR": "RR", "nDCG": "nDCG"}
"""Metric -> its family in ``measures``."""
NDCG, UDCG, THETA = "nDCG", "UDCG", "UDCGθ"
ELSEWHERE = "UDCGθ, fitted elsewhere"
"""Fits of other data, which were given; they have seen nothing of this study."""
BASELINES = (NDCG, UDCG)
"""What every metric is compared with: the usual one, and for UDCG's ablations the whole."""
ListMetric = Callable[[RankedList, float], float | None]


def _erag(measure: ListMeasure) -> ListMetric:
    def computed(ranked: RankedList, gamma: float) -> float | None:
        known = [gain for gain in ranked.gains if gain is not None]
        return measure(known) if len(known) == len(ranked.gains) else None

    return computed


def _mean_u(ranked: RankedList, gamma: float) -> float | None:
    return mean_of(ranked.utilities)


def _udcg(ranked: RankedList, gamma: float) -> float:
    return udcg(ranked.utilities, ranked.relevant, gamma)


def _no_distraction(ranked: RankedList, gamma: float) -> float:
    return udcg(ranked.utilities, ranked.relevant, 0.0)


def _binary_gain(ranked: RankedList, gamma: float) -> float:
    pairs = zip(ranked.utilities, ranked.relevant, strict=True)
    return udcg([1.0 if relevant else u for u, relevant in pairs], ranked.relevant, gamma)


def _binary(ranked: RankedList, gamma: float) -> float:
    return udcg([1.0] * len(ranked.relevant), ranked.relevant, gamma)


LIST_METRICS: dict[str, ListMetric] = {
    "eRAG": _erag(LIST_MEASURES["precision"]),
    "eRAG success": _erag(LIST_MEASURES["success"]),
    "eRAG nDCG": _erag(LIST_MEASURES["ndcg"]),
    "mean u": _mean_u,
    UDCG: _udcg,
}
METRICS = (*CLASSICAL, *LIST_METRICS, THETA)
"""Names in the order of the tables; UDCGθ is cross-validated (``theta``)."""
ABLATIONS: dict[str, ListMetric] = {
    "UDCG, no distraction": _no_distraction,
    "UDCG, relevant u = 1": _binary_gain,
    "UDCG, all u = 1": _binary,
}
"""γ = 0; binary gains, graded distraction; binary relevance throughout (which ranks full lists as Precision does)."""


def mean_of(numbers: Sequence[float | None]) -> float | None:
    """Return the mean of the numbers that are there; 0 for an empty list, ``None`` where none is there."""
    known = [number for number in numbers if number is not None]
    if not numbers:
        return 0.0
    return fsum(known) / len(known) if known else None


def score_lists(lists: Sequence[RankedList], qrels: Qrels, *, gamma: float, level: float) -> None:
    """Fill in ``values`` of every list: classical metrics, eRAG, mean utilities, UDCG and its ablations.

    An empty list counts 0 in all of them.

    Args:
        lists: The lists.
        qrels: Judgements of their questions.
        gamma: UDCG's weight of distraction.
        level: Grade from which a passage is relevant.
    """
    for own in _by_system(lists):
        k = own[0].k
        order = {ranked.query_id: ranked.passage_ids for ranked in own}
        judged = {query_id: qrels[query_id] for query_id in order if qrels.get(query_id)}
        measures = parse_measures([f"{family}@{k}" for family in CLASSICAL.values()])
        found = classical(order, judged, measures, level)
        for ranked in own:
            for name, family in CLASSICAL.items():
                value = found[f"{family}@{k}"].get(ranked.query_id)
                if value is not None:
                    ranked.values[name] = value
    for ranked in lists:
        for name, metric in {**LIST_METRICS, **ABLATIONS}.items():
            _keep(ranked.values, name, metric(ranked, gamma))
        for name, numbers in ranked.others.items():
            _keep(ranked.values, f"mean {name}", mean_of(numbers))


def score_whole_lists(lists: Sequence[RankedList], labels: Labels, names: Sequence[str]) -> None:
    """Fill in utilities of whole lists; a list whose label has no number goes without.

    Args:
        lists: The lists.
        labels: Labels of passage lists.
        names: Names of the utilities.
    """
    numbers = {(row.name, row.query_id, row.passage_ids): row.utility for row in labels}
    for ranked in lists:
        for name in names:
            _keep(ranked.values, name, numbers.get((name, ranked.query_id, ranked.passage_ids)))


def _by_system(lists: Sequence[RankedList]) -> list[list[RankedList]]:
    found: dict[tuple[str, int], list[RankedList]] = {}
    for ranked in lists:
        found.setdefault((ranked.system, ranked.k), []).append(ranked)
    return list(found.values())


def _keep(values: dict[str, float], name: str, value: float | None) -> None:
    if value is not None:
        values[name] = value
