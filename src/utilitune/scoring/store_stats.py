"""What a label store holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from utilitune.scoring.origin import Source
from utilitune.scoring.store import LabelStore
from utilitune.scoring.store_rows import reading, sources_of


@dataclass(frozen=True)
class Share:
    """The rows of one source.

    Attributes:
        source: Generator, kind of request and prompt.
        rows: Responses.
        size: Their bytes, without what the index takes.
        first: When the oldest was made, in seconds since 1970; 0 when unknown.
        last: When the newest was made.
        failed: Requests that have failed and have no response since.
    """

    source: Source
    rows: int
    size: int
    first: int
    last: int
    failed: int

    @property
    def model(self) -> str:
        """Model and arithmetic type; ``unknown`` without an identity, ``unreadable`` with a damaged one."""
        if not self.source.identity:
            return "unknown"
        try:
            identity = json.loads(self.source.identity)
        except ValueError:
            identity = None
        if not isinstance(identity, Mapping):
            return "unreadable"
        parts = (identity.get("model"), identity.get("dtype"), identity.get("adapter"))
        return " ".join(str(part) for part in parts if part)


def shares(store: LabelStore) -> list[Share]:
    """Count a store's rows by source.

    Args:
        store: An open store.

    Returns:
        One entry a source that has rows, by generator, kind and prompt.

    Raises:
        DataError: If the file cannot be read.
    """
    with reading(store) as db:
        sources = sources_of(db)
        counted = {
            number: (rows, size, first, last)
            for number, rows, size, first, last in db.execute(
                "SELECT source, count(*), sum(length(response)), min(made), max(made) FROM responses GROUP BY source"
            )
        }
        failed = dict(
            db.execute(
                "SELECT source, count(*) FROM failures WHERE key NOT IN (SELECT key FROM responses) GROUP BY source"
            ).fetchall()
        )
    found = [
        Share(source, *counted.get(number, (0, 0, 0, 0)), failed.get(number, 0))
        for number, source in sources.items()
        if number in counted or number in failed
    ]
    return sorted(found, key=lambda each: (each.source.generator, each.source.kind, each.source.prompt))


def file_bytes(path: Path) -> int:
    """Return the bytes of a store's file and of the log beside it."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(each.stat().st_size for each in files if each.exists())
