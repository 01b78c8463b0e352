"""Lines of a text file as the world makes them: split on LF only, BOM dropped, gzip by content."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from utilitune.errors import DataError

GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")


def magic(path: Path | str) -> bytes:
    """Return the first four bytes of a file.

    Args:
        path: The file.

    Returns:
        Up to four bytes.

    Raises:
        DataError: If the file cannot be read.
    """
    try:
        with Path(path).open("rb") as handle:
            return handle.read(4)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); expected a file") from error


def iter_lines(path: Path | str) -> Iterator[tuple[int, bytes]]:
    r"""Yield the lines of a file, with their line ends, and their numbers from 1.

    Only LF ends a line: U+2028, U+2029 and U+0085 are legal inside a JSON string, and ``str.splitlines`` cuts
    there.

    Args:
        path: A text file; compressed or not is told by its first bytes, not by its name.

    Yields:
        Line number and bytes. The last line has no ``b"\n"`` when the file does not end in one.

    Raises:
        DataError: If the file cannot be read, is UTF-16, or is a gzip file that is cut off or damaged.
    """
    packed = magic(path)[:2] == GZIP
    number = 0
    try:
        with gzip.open(path, "rb") if packed else Path(path).open("rb") as handle:
            for number, line in enumerate(handle, start=1):
                if number == 1:
                    if line[:2] in UTF16:
                        raise DataError(f"{path}: the text is UTF-16; save it as UTF-8")
                    line = line.removeprefix(BOM)
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}: the gzip file is cut off or damaged after line {number} ({error}); "
            f"line {number} is the last good one. Fetch or write the file again"
        ) from error
    except OSError as error:
        raise DataError(f"{path}: reading stopped after line {number} ({error})") from error
