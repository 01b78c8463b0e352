"""Score runs and answers under one contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.answer_accuracy import accuracy, answer_counts
from utilitune.evaluation.classical import check_grades, classical, threshold
from utilitune.evaluation.clusters import Clusters
from utilitune.evaluation.evaluation import LEFT_OUT, Evaluation
from utilitune.evaluation.expected_ties import TIES, check_ties, expected_over_ties
from utilitune.evaluation.measures import LESS_IS_BETTER, Measure, parse_measures
from utilitune.evaluation.ranking import RankedRun, rank_run
from utilitune.evaluation.relevance import JUDGED, Relevance, relevance_name, relevance_qrels
from utilitune.evaluation.significance import SEED
from utilitune.evaluation.udcg import GAMMA, Unjudged, udcg_at_k
from utilitune.progress import warn
from utilitune.records.answer import Answer
from utilitune.records.dataset import Dataset
from utilitune.records.label import Labels
from utilitune.records.query import Query
from utilitune.records.run import Qrels, Run

UtilityTable = Mapping[str, Mapping[str, float]]
UNLABELLED = "retrieved passages without a relevance label"
MEASURES = ("MRR@10", "nDCG@10", "R@10")


def evaluate(
    judged: Dataset | Qrels,
    runs: Mapping[str, Run] | Run,
    measures: Sequence[str] = MEASURES,
    *,
    utilities: UtilityTable | Labels | None = None,
    utility_name: str = "",
    answers: Mapping[str, Sequence[Answer]] | None = None,
    relevance: Relevance = JUDGED,
    relevant_from: float | None = None,
    gamma: float = GAMMA,
    unjudged: Unjudged = "irrelevant",
    only_answered: bool = False,
    ties: str = "trec",
    clusters: Clusters | None = None,
    seed: int = SEED,
) -> Evaluation:
    """Score every system on the same queries.

    Retrieval measures run over all judged queries: one that a run lacks, or answers with an empty list,
    counts 0, an unjudged one is ignored, all are counted. Every measure reads the same ranking (``ranking``:
    score descending, ties by id descending). The rules on grades stand in ``utilitune.evaluation.classical``,
    those on answers in ``utilitune.scoring.answer_match``. Answer measures run over all queries of the data
    set that have a gold answer.

    Args:
        judged: A data set (its queries and judgements), or judgements alone.
        runs: ``{system: run}``; a single ``Run`` is named ``"run"``.
        measures: Names such as ``"MRR@10"``, ``"nDCG@10"``, ``"UDCG@5"``, ``"contains"``; see
            ``known_measures``.
        utilities: ``{query_id: {passage_id: u}}`` or the labels of one utility; needed for UDCG.
        utility_name: What these utilities are, for the note under the table; labels name themselves.
        answers: ``{system: answers}``; needed for the answer measures. A system without answers lacks those
            measures.
        relevance: ``"judged"``; or in place of the judgements, for every measure: ``"contains"`` (what a run found is
            relevant where it contains a gold answer), or labels of a utility such as ``llm-relevance``; both need a
            data set.
        relevant_from: Grade from which a passage is relevant; 1 unless given, and to be given for fractional
            grades. Of labels the utility, the best passage of each query unless given.
        gamma: UDCG's weight of distraction.
        unjudged: UDCG's view of an unjudged passage: ``"irrelevant"``, or ``"skip"``.
        only_answered: Leave missing queries out of the means instead of counting 0. Flattering; comparisons
            then run over the queries that both systems answered.
        ties: ``"trec"``: the one ranking, equal scores by id descending; or ``"expected"``: the mean over all orders of
            equal scores, for the classical measures (``expected_ties``).
        clusters: ``{query_id: cluster}`` that intervals and tests take whole (``find_clusters(dataset.queries)`` for
            conversations).
        seed: Seed of intervals and tests.

    Returns:
        Values a query, means, counts; ``.compare(before, after)``, ``.rows()``.

    Raises:
        ConfigError: For an unknown measure, way with ties or view of unjudged passages, a ``relevant_from`` that is not
            above 0, a ``gamma`` that is not a number of at least 0, an unknown relevance, or a measure whose data were
            not given.
        DataError: If a run shares no query with the judgements, grades are not finite, or labels that stand for
            relevance do not fit.
    """
    if isinstance(runs, Run):
        runs = {"run": runs}
    asked = parse_measures(measures)
    check_ties(ties, asked)
    queries = judged.queries if isinstance(judged, Dataset) else []
    told = relevance_name(relevance, relevant_from)
    qrels, outside = _judgements(judged, relevance, runs, relevant_from)
    _check_data(asked, runs, queries, qrels, utilities, answers)
    per_query: dict[str, dict[str, dict[str, float]]] = {}
    counts: dict[str, dict[str, int]] = {}
    retrieval = [measure for measure in asked if measure.kind != "answer"]
    if retrieval:
        check_grades(qrels)
        level = threshold(qrels, retrieval, relevant_from if relevance == JUDGED else None)
        table = utilities.table() if isinstance(utilities, Labels) else utilities
    for system, run in runs.items() if retrieval else ():
        ranked = _ranked(system, run, qrels)
        exact = [measure for measure in asked if measure.kind == "classical"]
        if ties == "expected":
            per_query[system] = expected_over_ties(run, qrels, exact, level)
        else:
            per_query[system] = classical(ranked.order, qrels, exact, level)
        counts[system] = _run_counts(run, ranked, qrels, outside, relevance)
        if any(measure.kind == "utility" for measure in asked):
            chosen = [measure for measure in asked if measure.kind == "utility"]
            _score_utility(system, run, table or {}, qrels, chosen, per_query, counts, (gamma, level, unjudged))
        if only_answered:
            _leave_out_missing(run, per_query[system], counts[system])
    for system, given in (answers or {}).items():
        _score_answers(system, given, queries, [m for m in asked if m.kind == "answer"], per_query, counts)
    ordered = {
        system: {measure.name: values[measure.name] for measure in asked if measure.name in values}
        for system, values in per_query.items()
    }
    notes = [TIES[ties]] if retrieval and TIES[ties] else []
    if retrieval and relevance != JUDGED:
        notes.append(f"relevance: {told}, in every measure of a ranking; nobody judged")
    if any(measure.kind == "utility" for measure in asked):
        named = utility_name or (utilities.names()[0] if isinstance(utilities, Labels) else "")
        by = f"relevant from grade {level:g} of the judgements" if relevance == JUDGED else f"relevant by {told}"
        notes.append(_what_udcg_reads(named, by, gamma, unjudged, counts))
    if falling := [measure.name for measure in asked if measure.family in LESS_IS_BETTER]:
        notes.append(f"{', '.join(falling)}: less is better, so that what is counted as won there is lost")
    return Evaluation([measure.name for measure in asked], ordered, counts, seed, clusters, notes)


def _judgements(
    judged: Dataset | Qrels, relevance: Relevance, runs: Mapping[str, Run], relevant_from: float | None
) -> tuple[Qrels, int]:
    if relevance != JUDGED:
        if not isinstance(judged, Dataset):
            raise ConfigError(
                "relevance by containment or labels is of a data set, and found judgements; give the data set"
            )
        # A query for which no run found anything stays in: it counts 0.
        return relevance_qrels(judged, relevance, runs.values(), relevant_from), 0
    qrels = judged.qrels if isinstance(judged, Dataset) else judged
    held = {query_id: grades for query_id, grades in qrels.items() if grades}
    if not isinstance(judged, Dataset):
        return held, 0
    known = {query.id for query in judged.queries}
    inside = {query_id: grades for query_id, grades in held.items() if query_id in known}
    return inside, len(held) - len(inside)


def _check_data(
    asked: Sequence[Measure],
    runs: Mapping[str, Run],
    queries: Sequence[Query],
    qrels: Qrels,
    utilities: UtilityTable | Labels | None,
    answers: Mapping[str, Sequence[Answer]] | None,
) -> None:
    problems = []
    if any(not isinstance(run, Mapping) for run in runs.values()):
        problems.append("runs must map a system name to its run, as in {'bm25': run}")
    kinds = {kind: [measure.name for measure in asked if measure.kind == kind] for kind in ("utility", "answer")}
    if kinds["utility"] and utilities is None:
        problems.append(
            f"{', '.join(kinds['utility'])} needs utilities={{query_id: {{passage_id: u}}}} (--labels FILE)"
        )
    if kinds["answer"] and answers is None:
        problems.append(f"{', '.join(kinds['answer'])} needs answers={{system: answers}} (--answers NAME=FILE)")
    if kinds["answer"] and not any(query.answers for query in queries):
        problems.append(f"{', '.join(kinds['answer'])} needs a data set whose queries carry gold answers")
    if problems:
        raise ConfigError("\n".join(problems))
    if not qrels and any(measure.kind != "answer" for measure in asked):
        raise DataError("there are no judgements for these queries; give qrels, or ask for answer measures only")


def _ranked(system: str, run: Run, qrels: Qrels) -> RankedRun:
    if not any(query_id in qrels for query_id in run):
        raise DataError(
            f"run {system!r} shares no query with the judgements: it holds {_some(run)}, the judgements "
            f"{_some(qrels)}; check that both come from the same data set and split"
        )
    ranked = rank_run(run, qrels)
    if ranked.retrieved and not any(pid in qrels[q] for q, pids in ranked.order.items() for pid in pids):
        warn(
            f"run {system!r} retrieved no judged passage at all: it holds "
            f"{_some([pid for pids in ranked.order.values() for pid in pids])}, the judgements "
            f"{_some([pid for grades in qrels.values() for pid in grades])}; "
            "are these ids of the same corpus?"
        )
    if ranked.non_finite:
        warn(f"run {system!r}: {ranked.non_finite} scores are not finite; those passages rank last")
    return ranked


def _run_counts(run: Run, ranked: RankedRun, qrels: Qrels, outside: int, relevance: Relevance) -> dict[str, int]:
    answered = len(ranked.order)
    counts = {
        "scored": len(qrels),
        "answered": answered,
        "missing": len(qrels) - answered,
        "empty": sum(1 for pids in ranked.order.values() if not pids),
        "unjudged": len(run) - answered,
        "judged queries outside the data set": outside,
        "without a positive grade (not in nDCG)": sum(
            1 for grades in qrels.values() if not any(grade > 0 for grade in grades.values())
        ),
        "retrieved passages": ranked.retrieved,
        "tied passages": ranked.tied,
        "non-finite scores": ranked.non_finite,
        "duplicate passages": ranked.duplicates,
    }
    if isinstance(relevance, Labels):
        counts[UNLABELLED] = sum(pid not in qrels[q] for q, pids in ranked.order.items() for pid in pids)
    return counts


def _score_utility(
    system: str,
    run: Run,
    table: UtilityTable,
    qrels: Qrels,
    measures: Sequence[Measure],
    per_query: dict[str, dict[str, dict[str, float]]],
    counts: dict[str, dict[str, int]],
    settings: tuple[float, float, Unjudged],
) -> None:
    gamma, level, unjudged = settings
    for measure in measures:
        k = measure.cutoff or 1
        scores = udcg_at_k(run, table, qrels, k, gamma=gamma, relevant_from=level, unjudged=unjudged)
        if scores.passages and scores.missing_utilities == scores.passages:
            raise DataError(
                f"run {system!r}: none of its {scores.passages} passages at the first {k} ranks has a "
                "utility; label this run first, or check that the ids agree"
            )
        if scores.missing_utilities > 0.05 * scores.passages:
            warn(
                f"run {system!r}: {scores.missing_utilities} of {scores.passages} passages at the first {k} "
                f"ranks have no utility and drop out of {measure.name}"
            )
        per_query[system][measure.name] = {
            "UDCG": scores.values,
            "rawUDCG": scores.raw,
            "distraction": scores.distraction,
            "hardDistractors": scores.hard,
        }[measure.family]
        counts[system] |= {
            f"passages in UDCG@{k}": scores.passages,
            f"without utility in UDCG@{k}": scores.missing_utilities,
            f"unjudged in UDCG@{k} ({unjudged})": scores.unjudged_passages,
            f"utilities outside [0, 1] in UDCG@{k}": scores.outside_unit,
        }


def _what_udcg_reads(
    named: str, by: str, gamma: float, unjudged: Unjudged, counts: Mapping[str, Mapping[str, int]]
) -> str:
    said = f"UDCG: u is {named or 'what was given'}, {by}, γ {gamma:.3g}"
    if unjudged == "skip":
        said += ", passages without a judgement left out"
    outside = sum(n for own in counts.values() for kind, n in own.items() if kind.startswith("utilities outside"))
    return f"{said}; {outside} utilities lie outside [0, 1], where it is no UDCG" if outside else said


def _leave_out_missing(run: Run, values: dict[str, dict[str, float]], counts: dict[str, int]) -> None:
    for measure in values:
        values[measure] = {query_id: value for query_id, value in values[measure].items() if run.get(query_id)}
    empty = counts["empty"]
    counts[LEFT_OUT] = counts["missing"] + empty
    counts["answered"] -= empty
    counts["scored"], counts["missing"], counts["empty"] = counts["answered"], 0, 0


def _score_answers(
    system: str,
    given: Sequence[Answer],
    queries: Sequence[Query],
    measures: Sequence[Measure],
    per_query: dict[str, dict[str, dict[str, float]]],
    counts: dict[str, dict[str, int]],
) -> None:
    if not measures:
        return
    found = per_query.setdefault(system, {})
    for measure in measures:
        found[measure.name] = accuracy(given, queries, measure.family)
    counts.setdefault(system, {}).update(answer_counts(given, queries))


def _some(ids: object) -> str:
    names = sorted({str(name) for name in ids})  # type: ignore[attr-defined]
    return ", ".join(names[:3]) + (f", … ({len(names)} in all)" if len(names) > 3 else "") or "none"
