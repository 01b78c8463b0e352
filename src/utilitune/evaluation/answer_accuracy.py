"""Answers against gold answers."""

from __future__ import annotations

from collections.abc import Sequence

from utilitune.errors import ConfigError, DataError
from utilitune.records.answer import Answer
from utilitune.records.query import Query
from utilitune.scoring.answer_match import ANSWER_MEASURES, usable_golds


def accuracy(answers: Sequence[Answer], queries: Sequence[Query], measure: str = "contains") -> dict[str, float]:
    """Score answers, best over each query's gold answers.

    Args:
        answers: At most one answer a query.
        queries: The queries; those without a usable gold answer are left out.
        measure: ``"contains"``, ``"EM"`` or ``"F1"``.

    Returns:
        ``{query_id: value}`` of every query with a gold answer, in the queries' order; a query without an
        answer counts 0.

    Raises:
        ConfigError: For an unknown measure.
        DataError: If a query has two answers, or no answer belongs to a query.
    """
    if measure not in ANSWER_MEASURES:
        raise ConfigError(f"unknown answer measure {measure!r}; known: {', '.join(ANSWER_MEASURES)}")
    compute = ANSWER_MEASURES[measure]
    said = by_query(answers)
    golds = {query.id: usable_golds(query.answers) for query in queries}
    if said and not any(query_id in golds for query_id in said):
        raise DataError(
            f"no answer belongs to one of the queries: answers are of {', '.join(sorted(said)[:3])}, "
            f"queries are {', '.join(sorted(golds)[:3])}; check that both come from the same data set"
        )
    return {
        query_id: compute(said[query_id].answer, gold) if query_id in said else 0.0
        for query_id, gold in golds.items()
        if gold
    }


def answer_counts(answers: Sequence[Answer], queries: Sequence[Query]) -> dict[str, int]:
    """Count what stands behind an accuracy.

    Args:
        answers: At most one answer a query.
        queries: The queries.

    Returns:
        Counts by kind.
    """
    said = by_query(answers)
    scored = [query.id for query in queries if usable_golds(query.answers)]
    present = [said[query_id] for query_id in scored if query_id in said]
    return {
        "answers scored": len(scored),
        "answers missing": len(scored) - len(present),
        "answers empty": sum(1 for answer in present if not answer.answer.strip()),
        "answers abstained": sum(1 for answer in present if answer.abstained),
        "answers cut": sum(1 for answer in present if answer.cut),
        "queries without a gold answer": len(queries) - len(scored),
        "answers to other queries": len(said.keys() - {query.id for query in queries}),
    }


def by_query(answers: Sequence[Answer]) -> dict[str, Answer]:
    """Return answers by query id.

    Args:
        answers: The answers.

    Returns:
        One a query.

    Raises:
        DataError: If a query has two.
    """
    found: dict[str, Answer] = {}
    for answer in answers:
        if answer.query_id in found:
            raise DataError(f"query {answer.query_id!r} has two answers; give one a query")
        found[answer.query_id] = answer
    return found
