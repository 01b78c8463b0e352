"""The queries that changed most between two systems, with the texts that show why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from utilitune.evaluation.compare.side import Side
from utilitune.evaluation.evaluation import Change, Evaluation
from utilitune.evaluation.ranking import ranking
from utilitune.records.dataset import Dataset
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Qrels

LIMIT, TOP = 10, 3
Example = dict[str, Any]


def largest_changes(
    evaluation: Evaluation,
    before: Side,
    after: Side,
    measure: str,
    dataset: Dataset | None = None,
    *,
    utilities: Mapping[str, Mapping[str, float]] | None = None,
    relevant_from: float = 1.0,
    limit: int = LIMIT,
    top: int = TOP,
) -> Example:
    """Return the largest changes of one measure, JSON-ready.

    Args:
        evaluation: Values of both systems.
        before: The system to start from.
        after: The system to judge.
        measure: By what to look for changes.
        dataset: Where the texts are; ids alone are shown without.
        utilities: ``{query_id: {passage_id: u}}``, shown beside the passages.
        relevant_from: Grade from which a passage is relevant.
        limit: Most queries to return.
        top: Passages a side.

    Returns:
        ``title, measure, before, after, better, worse, equal`` and ``items``, one a query: ``query_id, question,
        history, gold_answers, sides``; a side holds ``name, value, rewrite, answer, passages``; a passage ``id, title,
        text, relevant, utility`` (``None`` where unknown).

    Raises:
        ConfigError: For an unknown system or measure.
    """
    first, second = evaluation.values(before.name, measure), evaluation.values(after.name, measure)
    common = [query_id for query_id in first if query_id in second]
    changes = evaluation.changes(before.name, after.name, measure, limit)
    queries = {query.id: query for query in dataset.queries} if dataset else {}
    qrels: Qrels = dataset.qrels if dataset else {}
    shown = {
        side.name: {change.query_id: _top(side, change.query_id, top) for change in changes} for side in (before, after)
    }
    texts = _texts(dataset.corpus if dataset else (), shown.values())

    def passages(side: Side, query_id: str) -> list[dict[str, Any]]:
        grades, own = qrels.get(query_id), (utilities or {}).get(query_id, {})
        return [
            {
                "id": passage_id,
                "title": texts[passage_id].title if passage_id in texts else "",
                "text": texts[passage_id].text if passage_id in texts else None,
                "relevant": None if grades is None else grades.get(passage_id, relevant_from - 1) >= relevant_from,
                "utility": own.get(passage_id),
            }
            for passage_id in shown[side.name][query_id]
        ]

    def item(change: Change) -> dict[str, Any]:
        sides = [
            {
                "name": side.name,
                "value": value,
                "rewrite": side.rewrites.get(change.query_id),
                "answer": side.answers.get(change.query_id),
                "passages": passages(side, change.query_id),
            }
            for side, value in ((before, change.before), (after, change.after))
        ]
        return {"query_id": change.query_id, **_question(queries.get(change.query_id)), "sides": sides}

    return {
        "title": f"{before.name} ▶ {after.name}, by {measure}",
        "measure": measure,
        "before": before.name,
        "after": after.name,
        "better": sum(second[query_id] > first[query_id] for query_id in common),
        "worse": sum(second[query_id] < first[query_id] for query_id in common),
        "equal": sum(second[query_id] == first[query_id] for query_id in common),
        "items": [item(change) for change in changes],
    }


def _top(side: Side, query_id: str, top: int) -> list[str]:
    scored: Sequence[tuple[str, float]] = side.run.get(query_id, ()) if side.run is not None else ()
    return [passage_id for passage_id, _ in ranking(scored)[:top]]


def _texts(corpus: Iterable[Passage], shown: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, Passage]:
    wanted = {passage_id for lists in shown for ids in lists.values() for passage_id in ids}
    return {passage.id: passage for passage in corpus if passage.id in wanted}


def _question(query: Query | None) -> dict[str, Any]:
    if query is None:
        return {"question": None, "history": [], "gold_answers": []}
    return {
        "question": query.text,
        "history": [{"role": turn.role, "content": turn.content} for turn in query.history],
        "gold_answers": list(query.answers),
    }
