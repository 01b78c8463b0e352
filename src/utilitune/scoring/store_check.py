"""Whether a label store is whole: the file, every row, every identity."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from hashlib import sha256

from utilitune.scoring.origin import Source
from utilitune.scoring.response_codec import decode, encode
from utilitune.scoring.store import LabelStore
from utilitune.scoring.store_rows import StoredRow, day_and_time, reading, sources_of, stored_rows

UNREADABLE = "responses that cannot be read"
NOT_WHOLE = "responses with missing or non-finite numbers"
FILE = "faults of the file"
NO_SOURCE = "rows of no known source"
IDENTITY = "identities that are not what their hash says"
ABOUT = "rows whose key, time, query or passages cannot be read"


class RowCheck:
    """Finds what is wrong with the rows of one store.

    Attributes:
        sources: The store's sources by number.
        unsound: Keys of generators whose identity has another hash: their rows are right, what is said of them is not.
    """

    sources: dict[int, Source]
    unsound: set[str]

    def __init__(self, db: sqlite3.Connection) -> None:
        """Read the sources."""
        self.sources = sources_of(db)
        self.unsound = {source.generator for source in self.sources.values() if not _is_sound(source)}

    def fault(self, row: StoredRow) -> str:
        """Return what is wrong with a row, the same for whoever asks; empty when nothing is."""
        if row.source not in self.sources:
            return NO_SOURCE
        if not _is_told(row):
            return ABOUT
        return "" if row.data is None else fault_of(row.data)


def faults(store: LabelStore) -> tuple[Counter[str], Counter[str]]:
    """Read every row of a store.

    Args:
        store: An open store.

    Returns:
        Faults by kind (none when the store is whole), and what else was counted: ``responses``, ``failures``, and rows
        of ``unknown generator`` (kept by format 1, which did not say).

    Raises:
        DataError: If the file is so damaged that its rows cannot be gone through.
    """
    bad: Counter[str] = Counter()
    seen: Counter[str] = Counter(responses=0, failures=0)
    with reading(store) as db:
        bad[FILE] += sum(line != "ok" for (line,) in db.execute("PRAGMA integrity_check"))
        check = RowCheck(db)
        bad[IDENTITY] += len(check.unsound)
        for row in stored_rows(db):
            seen["failures" if row.data is None else "responses"] += 1
            source = check.sources.get(row.source)
            seen["unknown generator"] += source is not None and not source.generator
            fault = check.fault(row)
            bad[fault] += bool(fault)
    return +bad, Counter({kind: count for kind, count in seen.items() if count or kind != "unknown generator"})


def fault_of(data: bytes) -> str:
    """Return what is wrong with a response's bytes; empty when nothing is."""
    try:
        response = decode(data)
    except ValueError:
        return UNREADABLE
    return "" if encode(response) is not None else NOT_WHOLE


def _is_sound(source: Source) -> bool:
    return not source.generator or sha256(str(source.identity).encode()).hexdigest() == source.generator


def _is_told(row: StoredRow) -> bool:
    """Tell whether a row's key, time, query and passages are of the kinds that they were written in."""
    try:
        ids = json.loads(row.passages) if row.passages else []
        day_and_time(row.made)
    except (ValueError, TypeError):
        return False
    texts = isinstance(ids, list) and all(isinstance(each, str) for each in (row.query_id, *ids))
    return texts and isinstance(row.key, bytes)
