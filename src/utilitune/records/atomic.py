"""Whole files, written beside their target and moved into place: a reader never sees half a file."""

from __future__ import annotations

import gzip
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from utilitune.errors import DataError
from utilitune.records.plain import encode


@contextmanager
def replacing(path: Path | str) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces ``path`` only when the block ends without an error.

    Missing parent folders are made. A symbolic link is followed, so that the file behind it is replaced.

    Args:
        path: Where the finished file belongs; ``.gz`` compresses (without a time stamp: same rows, same
            bytes).

    Yields:
        A binary file.

    Raises:
        DataError: If the file cannot be written: no room, no right, a name too long; or if something other than a
            file is there.
    """
    target = Path(os.path.realpath(path))
    # The same directory, because a rename is atomic only within one file system.
    scratch = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        # A rename would put a file in the place of /dev/null itself.
        if target.exists() and not target.is_file():
            raise DataError(f"{path}: is a folder or a device, expected a file or nothing yet; name another place")
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("xb") as raw:
            if target.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                    yield cast("IO[bytes]", packed)
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        if target.exists():
            scratch.chmod(target.stat().st_mode & 0o777)
        scratch.replace(target)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror or error}); make room there or name another place"
        ) from error
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def write_text(path: Path | str, text: str) -> None:
    """Write a text file: UTF-8, line ends as they are in ``text``, atomically.

    Args:
        path: The file.
        text: Its whole content.

    Raises:
        DataError: If ``text`` holds a lone surrogate, which UTF-8 cannot carry.
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{path}: cannot write a lone surrogate ({text[error.start]!r}) as UTF-8") from error
    with replacing(path) as handle:
        handle.write(data)


def write_json(path: Path | str, obj: Mapping[str, Any] | list[Any]) -> None:
    """Write one indented JSON document, atomically. NumPy numbers and paths are cast.

    Args:
        path: The file.
        obj: A JSON-ready object.

    Raises:
        DataError: If a number is not finite or a value has no JSON form; names where in ``obj``.
    """
    write_text(path, encode(obj, place=str(path), indent=2) + "\n")


def read_json(path: Path | str) -> Any:
    """Read one JSON document.

    Args:
        path: The file.

    Returns:
        The document.

    Raises:
        DataError: If the file is missing or is not JSON.
    """
    try:
        return json.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise DataError(f"{path}: not a JSON document ({error})") from error
