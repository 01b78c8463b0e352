"""Rewrites: one search text a question, as ``utilitune rewrite`` writes them."""

from __future__ import annotations

from pathlib import Path

from utilitune.records.fields import Row, id_field, text_field
from utilitune.records.problem import RowError
from utilitune.records.rows import read_records


def read_rewrites(path: Path | str) -> dict[str, str]:
    """Read search texts.

    Args:
        path: Rows of ``query_id`` and ``text``; JSONL, gzipped JSONL or Parquet.

    Returns:
        ``{query_id: text}``.

    Raises:
        DataError: If a row lacks one of them or a question comes twice; names file and line.
    """
    texts: dict[str, str] = {}

    def parse(row: Row) -> tuple[str, str]:
        query_id = id_field(row, "query_id")
        if query_id in texts:
            raise RowError(f"query {query_id!r} has a second text; expected one a question")
        return query_id, text_field(row, "text")

    for _, (query_id, text) in read_records(path, parse):
        texts[query_id] = text
    return texts
