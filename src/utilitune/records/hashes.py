"""Content hashes of files and folders, for manifests."""

from __future__ import annotations

import hashlib
from pathlib import Path

from utilitune.errors import DataError


def file_hash(path: Path | str) -> str:
    """Return the SHA-256 of a file's bytes.

    Args:
        path: The file.

    Returns:
        64 hex digits.

    Raises:
        DataError: If the file cannot be read.
    """
    try:
        with Path(path).open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); expected a file") from error


def folder_hash(folder: Path | str) -> str:
    """Return the SHA-256 over the relative names and contents of all files below a folder.

    Hidden files and folders (names that start with a dot) are left out: they are other programs' droppings.
    Where the folder lies, and times and rights of its files, do not matter.

    Args:
        folder: The folder.

    Returns:
        64 hex digits.

    Raises:
        DataError: If it is not a folder.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{folder}: not a folder")
    names = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    digest = hashlib.sha256()
    for name, path in sorted(names.items()):
        if not any(part.startswith(".") for part in name.split("/")):
            # Length first, so that no two listings can run together into the same bytes.
            digest.update(f"{len(name.encode())}:{name}={file_hash(path)}\n".encode())
    return digest.hexdigest()
