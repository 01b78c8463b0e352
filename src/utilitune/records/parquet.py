"""Rows in Parquet: the same rows as JSONL, for larger tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from utilitune.errors import DataError
from utilitune.records.plain import encode, not_finite
from utilitune.records.problem import Problem, place

MAGIC = b"PAR1"
# Columns that Arrow cannot type (free-form objects) are stored as JSON text and marked so in the schema.
JSON_MARK = {b"utilitune": b"json"}


def scan_parquet(path: Path | str) -> Iterator[tuple[int, dict[str, Any] | Problem]]:
    """Yield each row or what is wrong with it, a batch in memory at a time.

    Args:
        path: A Parquet file.

    Yields:
        Row number from 1, and the row (``None`` where a cell is null) or a problem.

    Raises:
        DataError: If the file is cut off or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as table:
            marked = [f.name for f in table.schema_arrow if (f.metadata or {}).get(b"utilitune") == b"json"]
            for batch in table.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    for name in marked:
                        row[name] = None if row[name] is None else json.loads(row[name])
                    where = not_finite(row)
                    if where is None:
                        yield number, row
                    else:
                        message = f"the number at {where} is not finite; write a missing number as null"
                        yield number, Problem("bad line", place(Path(path), number), message)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: the Parquet file is damaged or cut off after row {number} ({error})") from error


def write_parquet(handle: IO[bytes], rows: Iterable[Mapping[str, Any]], name: str) -> int:
    """Write rows as one Parquet table to an open binary file.

    A column with free-form objects, or with values of several kinds, is stored as JSON text that
    ``scan_parquet`` turns back; lists of objects with equal keys (messages) stay native, so that other tools
    read them.

    Args:
        handle: Where to.
        rows: JSON-ready mappings.
        name: File name, for messages.

    Returns:
        The number of rows.

    Raises:
        DataError: If a number is not finite or a value has no JSON form.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Through strict JSON text first, so that both forms hold the same values and refuse the same ones.
    plain = [json.loads(encode(row, place=f"{name}: row {number}")) for number, row in enumerate(rows, start=1)]
    fields, columns = [], []
    for key in dict.fromkeys(key for row in plain for key in row):
        values = [row.get(key) for row in plain]
        column = None if _free_form(values) else _typed(values)
        marked = column is None
        if column is None:
            texts = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
            column = pa.array(texts, type=pa.string())
        columns.append(column)
        fields.append(pa.field(key, column.type, metadata=JSON_MARK if marked else None))
    pq.write_table(pa.Table.from_arrays(columns, schema=pa.schema(fields)), handle, compression="zstd")
    return len(plain)


def _typed(values: list[Any]) -> Any:
    """Return an Arrow column, or ``None`` when one type does not fit all values unchanged."""
    import pyarrow as pa

    try:
        column = pa.array(values)
    except (pa.ArrowException, OverflowError):
        return None
    # 1 and 1.5 in one column would come back as 1.0 and 1.5.
    mixed = pa.types.is_floating(column.type) and any(isinstance(value, int) for value in values)
    return None if mixed else column


def _free_form(values: list[Any]) -> bool:
    """Tell whether a column holds objects, or lists whose objects differ in their keys."""
    shapes: set[tuple[str, ...]] = set()
    for value in values:
        if isinstance(value, dict):
            return True
        if isinstance(value, list):
            for item in value:
                if isinstance(item, list):
                    return True
                if isinstance(item, dict):
                    shapes.add(tuple(sorted(item)))
    return len(shapes) > 1
