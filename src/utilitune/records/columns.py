"""Columns of a TREC-style line."""

from __future__ import annotations

from utilitune.records.problem import RowError


def split_columns(line: bytes, allowed: tuple[int, ...]) -> list[str]:
    r"""Split a line at tabs when that gives an allowed number of columns, else at ASCII white space.

    Tabs first, so that an id with a space survives; ASCII only, because ``str.split`` also cuts at U+0085 or
    U+00A0 inside an id.

    Args:
        line: One line with or without its line end.
        allowed: Numbers of columns that the format has.

    Returns:
        The columns.

    Raises:
        RowError: If the line has another number of columns or is not UTF-8.
    """
    line = line.rstrip(b"\r\n")
    parts = line.split(b"\t")
    if len(parts) not in allowed:
        parts = line.split()
    if len(parts) not in allowed:
        counts = " or ".join(map(str, allowed))
        raise RowError(f"found {len(parts)} columns; expected {counts}: {line[:60].decode('utf-8', 'replace')!r}")
    try:
        return [part.decode("utf-8") for part in parts]
    except UnicodeDecodeError as error:
        raise RowError(f"byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8") from None


def to_number(text: str, name: str) -> float:
    """Return a column as a number.

    Args:
        text: The column.
        name: Its name, for the message.

    Returns:
        The number; may be NaN or infinite.

    Raises:
        RowError: If it is not a number.
    """
    try:
        return float(text)
    except ValueError:
        raise RowError(f"the {name} is {text!r}; expected a number") from None
