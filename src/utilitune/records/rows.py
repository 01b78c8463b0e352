"""Rows of any table file: JSONL, gzipped JSONL or Parquet, told apart by content and extension."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from utilitune.errors import ConfigError, DataError
from utilitune.progress import warn
from utilitune.records.atomic import replacing
from utilitune.records.jsonl import JsonObject, scan_json_lines, write_json_lines
from utilitune.records.lines import magic
from utilitune.records.parquet import MAGIC, scan_parquet, write_parquet
from utilitune.records.problem import Findings, Problem, RowError, place

OnBadLine = Literal["error", "skip"]
T = TypeVar("T")


def check_policy(on_bad_line: str) -> None:
    """Refuse an unknown policy.

    Args:
        on_bad_line: ``"error"`` or ``"skip"``.

    Raises:
        ConfigError: If it is neither.
    """
    if on_bad_line not in ("error", "skip"):
        raise ConfigError(f"on_bad_line is {on_bad_line!r}; expected 'error' or 'skip'")


def scan_rows(path: Path | str) -> Iterator[tuple[int, JsonObject | Problem]]:
    """Yield each row or what is wrong with it; a bad line does not end the reading.

    Args:
        path: JSONL, gzipped JSONL or Parquet.

    Returns:
        Pairs of line number (row number in Parquet, from 1) and row or problem.

    Raises:
        DataError: If the file as a whole cannot be read.
    """
    if magic(path) == MAGIC:
        return scan_parquet(path)
    if Path(path).suffix == ".parquet":
        raise DataError(f"{path}: named .parquet, but the content is not Parquet (no {MAGIC.decode()} at its start)")
    return scan_json_lines(path)


def read_rows(path: Path | str, *, on_bad_line: OnBadLine = "error") -> Iterator[tuple[int, JsonObject]]:
    """Read rows one by one.

    Args:
        path: JSONL, gzipped JSONL or Parquet.
        on_bad_line: ``"error"`` stops at the first bad line; ``"skip"`` goes on and warns at the end with the
            number.

    Yields:
        Line number from 1 (row number in Parquet) and row.

    Raises:
        DataError: If a line is bad and not to be skipped, or the file is cut off (also with ``"skip"``).
    """
    check_policy(on_bad_line)
    skipped: list[Problem] = []
    for line, row in scan_rows(path):
        if isinstance(row, dict):
            yield line, row
        elif on_bad_line == "error":
            raise DataError(str(row))
        else:
            skipped.append(row)
    if skipped:
        warn(f"{path}: {len(skipped)} bad line(s) skipped; the first is {skipped[0]}")


def read_records(path: Path | str, parse: Callable[[JsonObject], T]) -> Iterator[tuple[int, T]]:
    """Parse all rows of a file and report all bad ones in one error, after the last good one.

    Args:
        path: JSONL, gzipped JSONL or Parquet.
        parse: Makes a record of a row; raises ``RowError`` for a row that is not as documented.

    Yields:
        Line number and record.

    Raises:
        DataError: If any line is bad; lists the first ones as file:line.
    """
    findings = Findings()
    for line, row in scan_rows(path):
        if isinstance(row, Problem):
            findings.error(row)
            continue
        try:
            record = parse(row)
        except RowError as error:
            findings.error(Problem("bad line", place(Path(path), line), str(error)))
        else:
            yield line, record
    findings.raise_errors(str(path))


def write_rows(path: Path | str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows to a file that replaces ``path`` only when it is whole.

    Args:
        path: ``.parquet`` writes Parquet, ``.gz`` gzipped JSONL, anything else JSONL.
        rows: JSON-ready mappings; NumPy scalars are cast.

    Returns:
        The number of rows.

    Raises:
        DataError: If a number is not finite or a value has no JSON form; the old file stays as it was.
    """
    with replacing(path) as handle:
        if Path(path).suffix == ".parquet":
            return write_parquet(handle, rows, str(path))
        return write_json_lines(handle, rows, str(path))
