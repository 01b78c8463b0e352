"""The rows of a label store with all that they say of themselves, one by one."""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from utilitune.errors import ConfigError, DataError
from utilitune.generator.protocol import Generation
from utilitune.scoring.origin import Source
from utilitune.scoring.response_codec import decode
from utilitune.scoring.store import LabelStore
from utilitune.scoring.store_file import transaction

SHORT = 8
"""Digits of an identity's hash that people read and type."""

UNKNOWN_GENERATOR = "-"
"""What people read and type for rows that do not say which generator gave them."""


@dataclass(frozen=True)
class StoredRow:
    """One row as it lies in the file.

    Attributes:
        key: Its key.
        source: Number of its source in this file.
        made: Seconds since 1970; 0 when unknown.
        query_id: The query, where known.
        passages: Passage ids as JSON, empty for none.
        data: The response's bytes; ``None`` for a failure.
        reason: Why there is no response; empty where there is one.
    """

    key: bytes
    source: int
    made: int
    query_id: str
    passages: str
    data: bytes | None
    reason: str = ""


@contextmanager
def reading(store: LabelStore) -> Iterator[sqlite3.Connection]:
    """See one state of the store whatever other processes write meanwhile.

    Args:
        store: An open store.

    Yields:
        Its connection, in a transaction that reads.

    Raises:
        DataError: If the file cannot be read.
    """
    try:
        with transaction(store.db, "DEFERRED"):
            yield store.db
    except sqlite3.Error as error:
        raise DataError(
            f"{store.path}: the label store cannot be read ({error}); `utilitune labels merge {store.path} --into NEW` "
            "saves what can be"
        ) from error


def sources_of(db: sqlite3.Connection) -> dict[int, Source]:
    """Return all sources by their number in this file."""
    query = (
        "SELECT sources.id, key, identity, kind, prompt, prompt_hash FROM sources "
        "JOIN generators ON generators.id = generator ORDER BY sources.id"
    )
    return {number: Source(*row) for number, *row in db.execute(query)}


def stored_rows(db: sqlite3.Connection) -> Iterator[StoredRow]:
    """Yield the responses in the order in which they came, then the failures that no response followed."""
    for row in db.execute("SELECT key, source, made, query, passages, response FROM responses ORDER BY id"):
        yield StoredRow(*row)
    query = (
        "SELECT key, source, made, query, passages, reason FROM failures "
        "WHERE key NOT IN (SELECT key FROM responses) ORDER BY key"
    )
    for key, source, made, query_id, passages, reason in db.execute(query):
        yield StoredRow(key, source, made, query_id, passages, None, reason)


def plain_row(row: StoredRow, source: Source) -> dict[str, Any]:
    """Return a row in JSON-ready form.

    Args:
        row: The row.
        source: Its source.

    Returns:
        Key, identity, kind, prompt, time, query and passages, ``status`` (``ok`` or ``failed``), then either the
        response's fields or the reason.

    Raises:
        ValueError: If the response cannot be read.
    """
    fields: dict[str, Any] = {
        "key": row.key.hex(),
        "generator": source.generator[:SHORT],
        "identity": json.loads(source.identity) if source.identity else {},
        "kind": source.kind,
        "prompt": source.prompt,
        "prompt_hash": source.prompt_hash,
        "made": day_and_time(row.made),
        "query_id": row.query_id,
        "passage_ids": json.loads(row.passages) if row.passages else [],
        "status": "failed" if row.data is None else "ok",
    }
    if row.data is None:
        return {**fields, "reason": row.reason}
    response = decode(row.data)
    finish = response.finish if isinstance(response, Generation) else None
    return {**fields, **vars(response), "finish": finish}


def day_and_time(seconds: int) -> str:
    """Return seconds since 1970 as ISO 8601 in UTC; empty for 0, which stands for unknown.

    Args:
        seconds: The time.

    Returns:
        Day and time.

    Raises:
        ValueError: If it is no such time.
    """
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat() if seconds else ""
    except (TypeError, OverflowError, OSError) as error:
        raise ValueError(f"{seconds!r} is no time in seconds since 1970") from error


def chosen_sources(store: LabelStore, short: str) -> set[int]:
    """Return the numbers of the sources of one generator.

    Args:
        store: An open store.
        short: First digits of the identity's hash, as ``labels stats`` shows them; ``-`` for rows that do not say.

    Returns:
        Numbers in this file, at least one.

    Raises:
        ConfigError: If no generator, or more than one, begins so.
    """
    with reading(store) as db:
        sources = sources_of(db)
    keys = {source.generator for source in sources.values() if source.generator}
    found = {""} if short == UNKNOWN_GENERATOR else {key for key in keys if short and key.startswith(short)}
    if len(found) != 1:
        known = ", ".join(sorted(key[:SHORT] for key in keys)) or "none"
        raise ConfigError(f"{store.path}: {len(found)} generators begin with {short!r}; known: {known}")
    return {number for number, source in sources.items() if source.generator in found}
