"""A query as a row of ``queries.jsonl``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, cast, get_args

from utilitune.records.fields import messages_field, shown, text_field
from utilitune.records.passage_row import extra, row_id
from utilitune.records.problem import RowError
from utilitune.records.query import Query, Role, Turn

FIELDS = ("text", "answers", "history", "rewrite")


def parse_query(row: Mapping[str, Any], counts: Counter[str]) -> Query:
    """Make a query of a row ``{"_id" or "id", "text", "history"?, "answers"?, "rewrite"?, ...}``.

    Args:
        row: The row; further keys go to ``metadata``.
        counts: Takes what was kept although odd.

    Returns:
        The query.

    Raises:
        RowError: If a field is missing or of the wrong kind, or the question is empty.
    """
    query_id, text, rewrite = row_id(row, "query", counts), text_field(row, "text"), row.get("rewrite")
    if not text.strip():
        raise RowError("'text' is empty; expected a question")
    if rewrite is not None and not isinstance(rewrite, str):
        raise RowError(f"'rewrite' is {shown(rewrite)}; expected a string")
    if rewrite is not None and not rewrite.strip():
        counts["empty rewrites taken as none"] += 1
        rewrite = None
    return Query(query_id, text, _history(row, counts), _answers(row, counts), rewrite, extra(row, FIELDS))


def query_row(query: Query) -> dict[str, Any]:
    """Return a query's row.

    Args:
        query: The query.

    Returns:
        ``_id`` and ``text``, and the other fields where they hold something.
    """
    row: dict[str, Any] = {"_id": query.id, "text": query.text}
    if query.answers:
        row["answers"] = list(query.answers)
    if query.history:
        row["history"] = [{"role": turn.role, "content": turn.content} for turn in query.history]
    if query.rewrite is not None:
        row["rewrite"] = query.rewrite
    if query.metadata:
        row["metadata"] = dict(query.metadata)
    return row


def _history(row: Mapping[str, Any], counts: Counter[str]) -> tuple[Turn, ...]:
    if row.get("history") is None:
        return ()
    messages = messages_field(row, "history", get_args(Role))
    for message in messages:
        if not message["content"].strip():
            counts[f"empty {message['role']} turns kept"] += 1
    return tuple(Turn(cast("Role", message["role"]), message["content"]) for message in messages)


def _answers(row: Mapping[str, Any], counts: Counter[str]) -> tuple[str, ...]:
    value = row.get("answers")
    if value is None:
        return ()
    answers = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(item, (int, float)) and not isinstance(item, bool):
            counts["answers that were numbers"] += 1
            item = str(item)
        if not isinstance(item, str):
            raise RowError(f"'answers' holds {shown(item)}; expected a string or a list of strings")
        if item.strip():
            answers.append(item)
        else:
            counts["empty answers dropped"] += 1
    return tuple(answers)
