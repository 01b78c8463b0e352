"""Answers of the labelling with every token's weight: how much likelier the passage made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.evaluation.html.run_folder import RunFolder
from utilitune.records import Labels, Passage, UtilityLabel

QUERIES = 6


def label_tokens(run: RunFolder, limit: int = QUERIES) -> list[dict[str, Any]]:
    """Return the queries whose passages differ most in utility, best and worst passage of each.

    Args:
        run: The run.
        limit: Queries to return.

    Returns:
        JSON-ready items of ``query_id, question, labels``; a label holds ``name, utility, relevant, tokens, passages``;
        a token ``text, weight`` (in [-1, 1], the largest of its answer at 1) and ``key``. Empty without labels whose
        evidence holds log-probabilities with and without the passage.
    """
    labels = run.labels("label/labels.jsonl")
    if labels is None or run.dataset is None:
        return []
    chosen = _widest(labels, limit)
    wanted = {passage_id for rows in chosen.values() for row in rows for passage_id in row.passage_ids}
    texts = {passage.id: passage for passage in run.dataset.corpus if passage.id in wanted}
    questions = {query.id: query.text for query in run.dataset.queries}
    return [
        {
            "query_id": query_id,
            "question": questions.get(query_id),
            "labels": [_label(row, texts, run.dataset.qrels.get(query_id, {})) for row in rows],
        }
        for query_id, rows in chosen.items()
    ]


def weighted_tokens(evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the grounded answer's tokens with ``ln p(with the passage) − ln p(without)``, scaled to [-1, 1].

    Args:
        evidence: Of one label.

    Returns:
        ``text, weight, key`` of each token; empty where the evidence lacks one of the two log-probabilities.
    """
    grounded, bare = evidence.get("grounded"), evidence.get("grounded_under_bare")
    if not isinstance(grounded, Mapping) or not isinstance(bare, Mapping):
        return []
    tokens, with_it, without = grounded.get("tokens"), grounded.get("logprobs"), bare.get("logprobs")
    if not tokens or not with_it or not without or not len(tokens) == len(with_it) == len(without):
        return []
    key = (evidence.get("key") or {}).get("grounded") or [False] * len(tokens)
    gains = [float(a) - float(b) for a, b in zip(with_it, without, strict=True)]
    largest = max(map(abs, gains)) or 1.0
    return [
        {"text": str(token), "weight": gain / largest, "key": bool(mark)}
        for token, gain, mark in zip(tokens, gains, key, strict=False)
    ]


def _widest(labels: Labels, limit: int) -> dict[str, list[UtilityLabel]]:
    """Choose best and worst row of the queries with the widest spread, of the first label set with token evidence."""
    usable = [row for row in labels if row.utility is not None and weighted_tokens(row.evidence)]
    if not usable:
        return {}
    rows: dict[str, list[UtilityLabel]] = {}
    for row in usable:
        if row.label_set == usable[0].label_set:
            rows.setdefault(row.query_id, []).append(row)
    ordered = {query_id: sorted(own, key=_utility, reverse=True) for query_id, own in rows.items() if len(own) > 1}
    widest = sorted(ordered, key=lambda query_id: _utility(ordered[query_id][-1]) - _utility(ordered[query_id][0]))
    return {query_id: [ordered[query_id][0], ordered[query_id][-1]] for query_id in widest[:limit]}


def _utility(row: UtilityLabel) -> float:
    return row.utility or 0.0


def _label(row: UtilityLabel, texts: Mapping[str, Passage], grades: Mapping[str, float]) -> dict[str, Any]:
    return {
        "name": row.name,
        "utility": row.utility,
        "relevant": any(grades.get(passage_id, 0) > 0 for passage_id in row.passage_ids),
        "tokens": weighted_tokens(row.evidence),
        "passages": _passages(row.passage_ids, texts),
    }


def _passages(ids: Sequence[str], texts: Mapping[str, Passage]) -> list[dict[str, Any]]:
    return [{"id": each, "text": texts[each].full_text if each in texts else None} for each in ids]
