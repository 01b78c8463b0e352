"""Dropping rows of a label store that nobody needs any more."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from utilitune.errors import DataError
from utilitune.records.label import Labels
from utilitune.scoring.store import LabelStore
from utilitune.scoring.store_check import RowCheck
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
                (row.key, None if row.data is None else _size(row.data))
                for row in stored_rows(store.db)
                if all(condition(row) for condition in conditions)
            ]
            (total,) = store.db.execute("SELECT count(*) FROM responses").fetchone()
            responses = [(key,) for key, size in rows if size is not None]
            failures = [(key,) for key, size in rows if size is None]
            if not dry_run:
                store.db.executemany("DELETE FROM responses WHERE key = ?", responses)
                store.db.executemany("DELETE FROM failures WHERE key = ?", failures)
        # Free pages, not rows: an earlier call may have been killed before this line.
        if not dry_run and store.db.execute("PRAGMA freelist_count").fetchone() != (0,):
            store.db.execute("VACUUM")
            store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        fix = "run it again when no other process works on the store"
        if not isinstance(error, sqlite3.OperationalError):
            fix = f"`utilitune labels merge {store.path} --into NEW` saves what can be read"
        raise DataError(f"{store.path}: rows cannot be dropped ({error}); nothing is lost, {fix}") from error
    size = sum(size or 0 for _, size in rows)
    after = 0 if store.path is None else file_bytes(store.path)
    return Freed(len(responses), len(failures), total - len(responses), size, before, after)


def of_sources(numbers: set[int]) -> Condition:
    """Return a condition: the row is of one of these sources."""
    return lambda row: row.source in numbers


def made_before(seconds: float) -> Condition:
    """Return a condition: the row is older; rows of unknown age are not."""
    return lambda row: isinstance(row.made, int) and 0 < row.made < seconds


def damaged(store: LabelStore) -> Condition:
    """Return a condition: ``labels verify`` finds a fault with the row.

    Args:
        store: The open store.

    Returns:
        The condition.
    """

    @cache
    def check() -> RowCheck:
        # Made at the first row: inside the transaction, sources that another process has just added are known.
        return RowCheck(store.db)

    return lambda row: bool(check().fault(row))


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
        try:
            return known is None or not known.issuperset(json.loads(row.passages) if row.passages else ())
        except (ValueError, TypeError):  # for --damaged to drop
            return False

    return is_unused


def _size(data: bytes) -> int:
    return len(data) if isinstance(data, bytes | str) else 0  # a damaged row may hold anything
