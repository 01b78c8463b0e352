"""A label store's rows as a table for other tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

from utilitune.errors import DataError
from utilitune.records.rows import write_rows
from utilitune.scoring.store import LabelStore
from utilitune.scoring.store_check import RowCheck
from utilitune.scoring.store_rows import chosen_sources, plain_row, reading, stored_rows


def export_rows(store: LabelStore, out: Path | str, generator: str | None = None) -> Counter[str]:
    """Write rows with identity, status and evidence.

    Args:
        store: An open store.
        out: JSONL, ``.gz`` or Parquet; replaced only when it is whole.
        generator: First digits of a generator's hash; every generator when ``None``.

    Returns:
        Rows written by status, ``ok`` and ``failed``.

    Raises:
        ConfigError: If no generator begins so.
        DataError: If a row cannot be read.
    """
    wanted = None if generator is None else chosen_sources(store, generator)
    counts: Counter[str] = Counter(ok=0, failed=0)

    def rows() -> Generator[dict[str, Any], None, None]:
        with reading(store) as db:
            check = RowCheck(db)
            for row in stored_rows(db):
                if wanted is not None and row.source not in wanted:
                    continue
                fault = check.fault(row)
                if fault:
                    raise DataError(f"{store.path}: found {fault}; see `utilitune labels verify {store.path}`")
                source = check.sources[row.source]
                if source.generator in check.unsound:
                    raise DataError(
                        f"{store.path}: found an identity at fault; see `utilitune labels verify {store.path}`"
                    )
                plain = plain_row(row, source)
                counts[plain["status"]] += 1
                yield plain

    # Closed before the store is, also where nothing can be written.
    with closing(rows()) as each:
        write_rows(out, each)
    return counts
