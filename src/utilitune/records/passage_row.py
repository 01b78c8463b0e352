"""A passage as a row of ``corpus.jsonl``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from utilitune.records.fields import as_id, shown
from utilitune.records.passage import Passage
from utilitune.records.problem import RowError


def parse_passage(row: Mapping[str, Any], counts: Counter[str]) -> Passage:
    """Make a passage of a row ``{"_id" or "id", "text", "title"?, "metadata"?, ...}``.

    Args:
        row: The row; further keys go to ``metadata``.
        counts: Takes ids that were numbers.

    Returns:
        The passage. A missing or null title is ``""``.

    Raises:
        RowError: If the id or the text is missing or of the wrong kind.
    """
    text, title = row.get("text"), row.get("title")
    passage_id = row_id(row, "passage", counts)
    if not isinstance(text, str):
        raise RowError(_not_text("text", text, row))
    if title is not None and not isinstance(title, str):
        raise RowError(f"'title' is {shown(title)}; expected a string")
    return Passage(passage_id, text, title or "", extra(row, ("text", "title")))


def passage_row(passage: Passage) -> dict[str, Any]:
    """Return a passage's row.

    Args:
        passage: The passage.

    Returns:
        ``_id``, ``title``, ``text``, and ``metadata`` when there is any.
    """
    row: dict[str, Any] = {"_id": passage.id, "title": passage.title, "text": passage.text}
    return {**row, "metadata": dict(passage.metadata)} if passage.metadata else row


def row_id(row: Mapping[str, Any], what: str, counts: Counter[str]) -> str:
    """Return the id of a BEIR row.

    Args:
        row: A row with ``_id``, or ``id`` where there is no ``_id``.
        what: ``"passage"`` or ``"query"``.
        counts: Takes ids that were numbers.

    Returns:
        The id as a string.

    Raises:
        RowError: If there is none, or it is neither a string nor a whole number.
    """
    name = "_id" if "_id" in row else "id"
    value = row.get(name)
    if value is None:
        raise RowError(f"'_id' is missing; found the keys {', '.join(map(repr, row)) or 'none'}")
    found = as_id(value, name)
    if not isinstance(value, str):
        counts[f"{what} ids that were numbers"] += 1
    return found


def extra(row: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return what a BEIR row carries beyond the known fields.

    Args:
        row: The row.
        known: Fields with a home of their own.

    Returns:
        The entries of ``metadata`` when that is an object, and every other key that is not null.
    """
    inner = row.get("metadata")
    nested = isinstance(inner, Mapping)
    taken = {*known, "_id" if "_id" in row else "id", *(("metadata",) if nested else ())}
    outer = {key: value for key, value in row.items() if key not in taken and value is not None}
    return {**(inner if isinstance(inner, Mapping) else {}), **outer}


def _not_text(name: str, value: Any, row: Mapping[str, Any]) -> str:
    if value is None:
        return f"{name!r} is missing; found the keys {', '.join(map(repr, row)) or 'none'}"
    return f"{name!r} is {shown(value)}; expected a string"
