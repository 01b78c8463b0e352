"""Joining label stores."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from utilitune.errors import ConfigError, DataError
from utilitune.scoring.store import LabelStore
from utilitune.scoring.store_check import RowCheck
from utilitune.scoring.store_file import transaction
from utilitune.scoring.store_rows import StoredRow, stored_rows

BATCH = 2000
Numbered = tuple[StoredRow, int | None]
"""A row, and its source's number in the store that it goes into."""


def merge(into: Path | str, stores: Sequence[Path | str]) -> Counter[str]:
    """Copy the rows of ``stores`` into one; of two responses to one request the first stays.

    Killed and started again, it goes on: rows that are there already are counted as ``same``. Stores of format 1 are
    upgraded where they lie.

    Args:
        into: A store, or nothing yet.
        stores: The stores whose rows are copied, in the order in which they win.

    Returns:
        Rows by what became of them: ``copied``, ``same`` (there already), ``conflicts`` (there with another response,
        which stays), ``damaged`` (cannot be read; left out), ``failures``; and ``unread`` stores that broke midway.

    Raises:
        ConfigError: If a store is to be merged into itself.
        DataError: If a file is no label store.
    """
    target = Path(into)
    for path in stores:
        if Path(path).resolve() == target.resolve():
            raise ConfigError(f"{path} is where the others go; leave it out of the list, its rows stay and win")
        LabelStore(path, create=False).close()
    counts: Counter[str] = Counter(copied=0, same=0, conflicts=0, damaged=0, failures=0)
    with LabelStore(target) as goal:
        for path in stores:
            with LabelStore(path, create=False) as store:
                rows = _until_broken(store, goal, counts)
                while batch := list(islice(rows, BATCH)):
                    _copy(goal, batch, counts)
    return counts


def _until_broken(store: LabelStore, goal: LabelStore, counts: Counter[str]) -> Iterator[Numbered]:
    """Yield rows with their source's number in ``goal``, none for a row at fault; of a broken file the first ones."""
    try:
        # One state of it: a row that another process adds meanwhile may be of a source that has no number.
        with transaction(store.db, "DEFERRED"):
            check = RowCheck(store.db)
            numbers = goal.number_sources(check.sources)
            for row in stored_rows(store.db):
                yield row, None if check.fault(row) else numbers[row.source]
    except sqlite3.DatabaseError:
        counts["unread"] += 1


def _copy(goal: LabelStore, batch: Iterable[Numbered], counts: Counter[str]) -> None:
    try:
        with transaction(goal.db):
            for row, source in batch:
                counts[_copy_row(goal.db, row, source)] += 1
    except sqlite3.Error as error:
        raise DataError(f"{goal.path}: the label store cannot be written ({error}); what was copied is kept") from error


def _copy_row(db: sqlite3.Connection, row: StoredRow, source: int | None) -> str:
    if source is None:
        return "damaged"
    facts = (row.key, source, row.made, row.query_id, row.passages)
    if row.data is None:
        db.execute("INSERT OR IGNORE INTO failures VALUES (?, ?, ?, ?, ?, ?)", (*facts, row.reason))
        return "failures"
    insert = "INSERT OR IGNORE INTO responses (key, source, made, query, passages, response) VALUES (?, ?, ?, ?, ?, ?)"
    if db.execute(insert, (*facts, row.data)).rowcount:
        return "copied"
    (there,) = db.execute("SELECT response FROM responses WHERE key = ?", (row.key,)).fetchone()
    return "same" if there == row.data else "conflicts"
