"""JSON lines, read strictly: one object a line, no duplicate keys, no NaN, UTF-8 only."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

from utilitune.errors import DataError
from utilitune.records.lines import iter_lines
from utilitune.records.plain import encode
from utilitune.records.problem import Problem, RowError, place

JsonObject = dict[str, Any]


def scan_json_lines(path: Path | str) -> Iterator[tuple[int, JsonObject | Problem]]:
    """Yield each line's object, or what is wrong with the line; a bad line does not end the reading.

    Args:
        path: A JSONL file, gzipped or not. Blank lines are passed over.

    Yields:
        Line number from 1, and the row or a problem.
    """
    for number, line in iter_lines(path):
        if not line.strip():
            continue
        try:
            yield number, parse_line(line)
        except RowError as error:
            torn = not line.endswith(b"\n")
            note = "; the file ends inside this line, as if its writer was stopped" if torn else ""
            yield number, Problem("bad line", place(Path(path), number), f"{error}{note}")


def parse_line(line: bytes) -> JsonObject:
    """Parse one line.

    Args:
        line: Bytes of one JSON object.

    Returns:
        The object.

    Raises:
        RowError: If the line is not UTF-8, not JSON, not an object, repeats a key, or holds a number that is
            not finite.
    """
    try:
        text = line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise RowError(f"byte 0x{byte:02x} at column {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    try:
        row = _DECODER.decode(text)
    except RowError:
        raise
    except RecursionError:
        raise RowError("nested too deeply; expected one flat JSON object a line") from None
    except ValueError as error:
        raise RowError(f"not JSON ({error}): {_shown(text)}; expected one JSON object a line") from None
    if not isinstance(row, dict):
        raise RowError(f"found a JSON {_NAMES.get(type(row), 'value')}: {_shown(text)}; expected one object a line")
    if b"\\ud" in line or b"\\uD" in line:
        _refuse_surrogates(row)
    return row


def write_json_lines(handle: IO[bytes], rows: Iterable[Mapping[str, Any]], name: str) -> int:
    """Write rows to an open binary file: UTF-8, LF, strict JSON.

    Args:
        handle: Where to.
        rows: Objects.
        name: File name, for messages.

    Returns:
        The number of rows.

    Raises:
        DataError: If a row cannot be written as strict JSON in UTF-8; names the row.
    """
    count = 0
    for count, row in enumerate(rows, start=1):
        text = encode(row, place=f"{name}: row {count}")
        try:
            handle.write(text.encode("utf-8") + b"\n")
        except UnicodeEncodeError:
            raise DataError(f"{name}: row {count}: holds a lone surrogate, which UTF-8 cannot carry") from None
    return count


_NAMES = {list: "list", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def _shown(text: str) -> str:
    flat = text.strip()
    return repr(flat if len(flat) <= 60 else flat[:57] + "...")


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    row = dict(pairs)
    if len(row) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise RowError(f"the key {twice!r} appears twice in one object; expected each key once")
    return row


def _constant(name: str) -> NoReturn:
    raise RowError(f"{name} is not JSON; write a missing number as null")


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise RowError(f"the number {digits} is too large for a float")
    return number


def _refuse_surrogates(row: JsonObject) -> None:
    try:
        json.dumps(row, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise RowError("a \\ud800-style escape stands alone (half of a character); expected whole characters") from None


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
