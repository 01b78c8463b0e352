"""A label store's rows as a table for other tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from utilitune.errors import DataError
from utilitune.records.rows import write_rows
from utilitune.scoring.store import LabelStore
from utilitune.scoring.store_rows import chosen_sources, plain_row, reading, sources_of, stored_rows


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

    def rows() -> Iterator[dict[str, Any]]:
        with reading(store) as db:
            sources = sources_of(db)
            for row in stored_rows(db):
                if wanted is not None and row.source not in wanted:
                    continue
                try:
                    plain = plain_row(row, sources[row.source])
                except (ValueError, KeyError) as error:
                    raise DataError(
                        f"{store.path}: row {row.key.hex()} cannot be read ({error}); see `utilitune labels verify`"
                    ) from error
                counts[plain["status"]] += 1
                yield plain

    write_rows(out, rows())
    return counts
