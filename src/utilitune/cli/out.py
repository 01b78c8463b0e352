"""Where a verb writes: looked at before any work, so that nothing is lost or lost sight of at the end."""

from __future__ import annotations

import os
from pathlib import Path

from utilitune.errors import ConfigError


def check_file(path: Path, option: str = "--out") -> None:
    """Refuse a path that cannot become a file.

    Args:
        path: Where a file is to be written.
        option: Name of the option, for the message.

    Raises:
        ConfigError: If it is a folder, or lies below a file or where nothing can be written.
    """
    if path.is_dir():
        raise ConfigError(f"{option}: {path} is a folder, expected a file; name one, such as {path / 'NAME.jsonl'}")
    if path.exists() and not path.is_file():
        raise ConfigError(f"{option}: {path} is a device, expected a file; name another place")
    _check_parents(path, option)


def check_folder(path: Path, option: str = "--out") -> None:
    """Refuse a path that cannot become a folder of results.

    Args:
        path: Where a folder is to be written.
        option: Name of the option, for the message.

    Raises:
        ConfigError: If it is a file, lies below one or where nothing can be written, or is a folder that holds a data
            set.
    """
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{option}: {path} is a file, expected a folder; name a new one")
    corpus = next(path.glob("corpus.*"), None) if path.is_dir() else None
    if corpus is not None:
        raise ConfigError(f"{option}: {path} holds a data set ({corpus.name}); name another folder")
    _check_parents(path, option)


def check_store(out: Path, store: Path | None) -> Path:
    """Return the store of a verb that writes a file, which is not that file.

    Args:
        out: The file that is written.
        store: The store as given; else OUT with the ending ``.sqlite``.

    Returns:
        Where the store is.

    Raises:
        ConfigError: If either cannot be a file, or both are the same one.
    """
    check_file(out)
    chosen = store or out.with_suffix(".sqlite")
    check_file(chosen, "--store")
    if chosen.resolve() == out.resolve():
        raise ConfigError(f"--out: {out} is the store as well; give --out another name, such as {out.stem}.jsonl")
    return chosen


def check_apart(out: Path, data: Path, *inputs: Path) -> None:
    """Refuse to write over what is read.

    Args:
        out: The file that is written.
        data: Data folder whose corpus, queries and judgements are read.
        *inputs: Other files that are read.

    Raises:
        ConfigError: If it is one of them.
    """
    folders = (data, data / "qrels")
    of_data = [each for folder in folders for name in ("corpus*", "queries*", "*.tsv") for each in folder.glob(name)]
    if out.exists() and any(each.is_file() and out.samefile(each) for each in (*inputs, *of_data)):
        raise ConfigError(f"--out: {out} is what is read; give another name")


def _check_parents(path: Path, option: str) -> None:
    for parent in path.absolute().parents:
        if parent.exists():
            if not parent.is_dir():
                raise ConfigError(f"{option}: {path} lies below {parent}, which is a file; name another place")
            if not os.access(parent, os.W_OK | os.X_OK):
                raise ConfigError(f"{option}: {parent} cannot be written into; name another place than {path}")
            return
