"""Classical measures over the one ranking, by ir-measures on pytrec_eval.

The contract on grades (the whole one, every rule tested: docs/metrics.md):

* A passage is relevant from grade ``relevant_from`` on (1 unless given); that is all that RR, R, P, Success,
  AP read. Grades that are not whole numbers have no natural threshold: those measures then refuse until one
  is given.
* nDCG reads the grades as gains, linear, negatives clipped at 0. Whole numbers go to pytrec_eval; fractional
  gains, which it refuses (and trec_eval once cut to integers unnoticed), go to the small function in
  ``fractional_ndcg``.
* A query without any positive gain has no ideal ranking: nDCG leaves it out, counted. In the other measures
  it counts 0.
* A judged query that the run lacks, or answers with an empty list, counts 0. An unjudged passage is not
  relevant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.fractional_ndcg import fractional_ndcg
from utilitune.evaluation.measures import BINARY, Measure
from utilitune.records.run import Qrels

PerQuery = dict[str, float]

# pytrec_eval allocates a counter a grade; larger "grades" are scores in disguise.
LARGEST_GRADE = 1000


def check_grades(qrels: Qrels) -> None:
    """Refuse grades that are no finite numbers.

    Args:
        qrels: The judgements.

    Raises:
        DataError: Naming the first such query and passage.
    """
    for query_id, grades in qrels.items():
        for passage_id, grade in grades.items():
            if not math.isfinite(grade):
                raise DataError(
                    f"judgement of query {query_id!r}, passage {passage_id!r} is {grade}; "
                    "grades must be finite numbers: drop the row or give a grade"
                )


def is_fractional(qrels: Qrels) -> bool:
    """Return whether any grade is not a whole number."""
    return any(grade != int(grade) for grades in qrels.values() for grade in grades.values())


def threshold(qrels: Qrels, measures: Sequence[Measure], relevant_from: float | None) -> float:
    """Return the grade from which a passage is relevant.

    Args:
        qrels: The judgements.
        measures: What is to be computed.
        relevant_from: The user's choice, if any.

    Returns:
        The threshold; 1 when nothing was chosen.

    Raises:
        ConfigError: If the choice is not above 0, or the grades are fractional, a measure needs a threshold, and none
            was chosen.
    """
    if relevant_from is not None:
        # At 0 or below, passages that were judged worthless would be relevant.
        if not 0 < relevant_from < math.inf:
            raise ConfigError(f"relevant_from (--relevant-from) is {relevant_from}; expected a grade above 0")
        return relevant_from
    asking = [m.name for m in measures if m.family in BINARY or m.kind == "utility"]
    if asking and is_fractional(qrels):
        raise ConfigError(
            f"the judgements hold fractional grades, and {', '.join(asking)} must know which passages are "
            "relevant; pass relevant_from=<grade>, or --relevant-from <grade> on the command line (nDCG reads "
            "fractional grades as they are)"
        )
    return 1.0


def classical(
    order: Mapping[str, Sequence[str]], qrels: Qrels, measures: Sequence[Measure], relevant_from: float
) -> dict[str, PerQuery]:
    """Compute classical measures for every judged query.

    Args:
        order: ``{query_id: [passage_id, ...]}`` in rank order, as ``rank_run`` gives it.
        qrels: Judgements; the queries to score, all of them.
        measures: Measures of kind ``"classical"``.
        relevant_from: Grade from which a passage is relevant.

    Returns:
        ``{measure name: {query_id: value}}``, every value in [0, 1]. nDCG lacks the queries without a
        positive gain.
    """
    gains = {q: {p: max(g, 0.0) for p, g in grades.items()} for q, grades in qrels.items()}
    ideal = {query_id: grades for query_id, grades in gains.items() if any(grades.values())}
    whole = not is_fractional(qrels) and all(g <= LARGEST_GRADE for gs in qrels.values() for g in gs.values())
    graded = [measure for measure in measures if measure.family == "nDCG"]
    binary = {q: {p: int(g >= relevant_from) for p, g in grades.items()} for q, grades in qrels.items()}
    found = _by_ir_measures(order, binary, [measure for measure in measures if measure.family != "nDCG"])
    if whole:
        integers = {q: {p: int(g) for p, g in grades.items()} for q, grades in ideal.items()}
        return found | _by_ir_measures(order, integers, graded)
    for measure in graded:
        found[measure.name] = {
            query_id: fractional_ndcg(order.get(query_id, ()), grades, measure.cutoff)
            for query_id, grades in ideal.items()
        }
    return found


def _by_ir_measures(
    order: Mapping[str, Sequence[str]], qrels: Mapping[str, Mapping[str, int]], measures: Sequence[Measure]
) -> dict[str, PerQuery]:
    """Compute measures in as few passes over the run as can be: one, and one for each cut-off of RR."""
    import ir_measures

    passes: dict[int | None, dict[Any, list[str]]] = {}
    for measure in measures:
        wanted = getattr(ir_measures, measure.family)
        # pytrec_eval has no RR with a cut-off: cutting the list says the same.
        cut = measure.cutoff if measure.family == "RR" else None
        if measure.cutoff is not None and cut is None:
            wanted = wanted @ measure.cutoff
        passes.setdefault(cut, {}).setdefault(wanted, []).append(measure.name)
    found: dict[str, PerQuery] = {measure.name: dict.fromkeys(qrels, 0.0) for measure in measures}
    for cut, names in passes.items():
        # Ranks travel as scores n, n-1, …: trec_eval reads scores as 32-bit floats and re-sorts ties;
        # ranks survive both.
        run = {
            query_id: {pid: float(len(pids) - rank) for rank, pid in enumerate(pids[:cut])}
            for query_id, pids in order.items()
            if pids and query_id in qrels
        }
        if not run:
            continue
        for metric in ir_measures.pytrec_eval.iter_calc(list(names), qrels, run):
            for name in names[metric.measure]:
                found[name][metric.query_id] = float(metric.value)
    return found
