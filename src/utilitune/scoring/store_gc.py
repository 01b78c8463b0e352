"""Dropping rows of a label store that nobody needs any more."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from utilitune.errors import DataError
from utilitune.records.label import Labels
from utilitune.scoring.store import LabelStore
from utilitune.scoring.store_check import fault_of
from utilitune.scoring.store_file import transaction
from utilitune.scoring.store_rows import StoredRow, stored_rows
from utilitune.scoring.store_stats import file_bytes

Condition = Callable[[StoredRow], bool]


@dataclass(frozen=True)
class Freed:
    """What was dropped, or would be.

    Attributes:
        responses: Rows with a response.
        failures: Notes of failed requests.
        kept: Rows that stay.
        size: Bytes of the responses dropped.
        before: Bytes of the file before.
        after: Bytes of the file now.
    """

    responses: int
    failures: int
    kept: int
    size: int
    before: int
    after: int


def gc(store: LabelStore, conditions: Sequence[Condition], *, dry_run: bool = False) -> Freed:
    """Drop the rows that meet every condition, and give their space back.

    Another process may label meanwhile: it waits for the moment of writing, and computes again what it still needs.

    Args:
        store: An open store.
        conditions: At least one.
        dry_run: Only count.

    Returns:
        What was, or would be, dropped.

    Raises:
        DataError: If the file cannot be read or written.
        ValueError: Without a condition.
    """
    if not conditions:
        raise ValueError("without a condition every row would go")
    before = 0 if store.path is None else file_bytes(store.path)
    try:
        with transaction(store.db, "DEFERRED" if dry_run else "IMMEDIATE"):
            rows = [
                (row.key, None if row.data is None else len(row.data))
                for row in stored_rows(store.db)
                if all(condition(row) for condition in conditions)
            ]
            (total,) = store.db.execute("SELECT count(*) FROM responses").fetchone()
            responses = [(key,) for key, size in rows if size is not None]
            failures = [(key,) for key, size in rows if size is None]
            if not dry_run:
                store.db.executemany("DELETE FROM responses WHERE key = ?", responses)
                store.db.executemany("DELETE FROM failures WHERE key = ?", failures)
        if rows and not dry_run:
            store.db.execute("VACUUM")
            store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise DataError(
            f"{store.path}: rows cannot be dropped ({error}); nothing is lost, run it again when no other process "
            "works on the store"
        ) from error
    size = sum(size or 0 for _, size in rows)
    after = 0 if store.path is None else file_bytes(store.path)
    return Freed(len(responses), len(failures), total - len(responses), size, before, after)


def of_sources(numbers: set[int]) -> Condition:
    """Return a condition: the row is of one of these sources."""
    return lambda row: row.source in numbers


def made_before(seconds: float) -> Condition:
    """Return a condition: the row is older; rows of unknown age are not."""
    return lambda row: 0 < row.made < seconds


def damaged(row: StoredRow) -> bool:
    """Tell whether a row's response cannot be read."""
    return row.data is not None and bool(fault_of(row.data))


def unused_by(labels: Sequence[Labels]) -> Condition:
    """Return a condition: no row of these labels is about the row's query with its passages.

    A row that does not say its query stays. A row about some of the passages that a query has labels for is used:
    utilities ask about parts of a set.

    Args:
        labels: Labels, of any utilities.

    Returns:
        The condition.
    """
    used: dict[str, set[str]] = {}
    for row in (row for each in labels for row in each):
        used.setdefault(row.query_id, set()).update(row.passage_ids)

    def is_unused(row: StoredRow) -> bool:
        if not row.query_id:
            return False
        known = used.get(row.query_id)
        return known is None or not known.issuperset(json.loads(row.passages) if row.passages else ())

    return is_unused
