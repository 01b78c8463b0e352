"""Whether a label store is whole: the file, every row, every identity."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

from utilitune.scoring.origin import Source
from utilitune.scoring.response_codec import decode, encode
from utilitune.scoring.store import LabelStore
from utilitune.scoring.store_rows import StoredRow, reading, sources_of, stored_rows

UNREADABLE = "responses that cannot be read"
NOT_WHOLE = "responses with missing or non-finite numbers"
FILE = "faults of the file"
NO_SOURCE = "rows of no known source"
IDENTITY = "identities that are not what their hash says"


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
        sources = sources_of(db)
        for source in {source.generator: source for source in sources.values()}.values():
            if source.generator and sha256(source.identity.encode()).hexdigest() != source.generator:
                bad[IDENTITY] += 1
        for row in stored_rows(db):
            seen["failures" if row.data is None else "responses"] += 1
            _look_at(row, sources, bad, seen)
    return +bad, seen


def _look_at(row: StoredRow, sources: dict[int, Source], bad: Counter[str], seen: Counter[str]) -> None:
    source = sources.get(row.source)
    if source is None:
        bad[NO_SOURCE] += 1
    elif not source.generator:
        seen["unknown generator"] += 1
    if row.data is not None:
        fault = fault_of(row.data)
        if fault:
            bad[fault] += 1


def fault_of(data: bytes) -> str:
    """Return what is wrong with a response's bytes; empty when nothing is."""
    try:
        response = decode(data)
    except (ValueError, TypeError, AttributeError):
        return UNREADABLE
    return "" if encode(response) is not None else NOT_WHOLE
