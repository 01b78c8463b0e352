"""The SQLite file under a label store: opening it, its tables, older formats."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from utilitune.errors import DataError
from utilitune.progress import say, warn
from utilitune.scoring.origin import FORMAT_1
from utilitune.scoring.response_codec import encode
from utilitune.scoring.response_json import from_json
from utilitune.scoring.response_key import KEY_BYTES, PROMPT_BYTES

FORMAT = 2
APPLICATION = 0x7574696C  # "util"
BUSY_SECONDS = 120.0
CACHE_KIB = 256 * 1024
# Pages are copied from the log into the file once in 256 MiB: an index page that many chunks touch is copied once.
CHECKPOINT_PAGES = 65536

_TABLES = """
CREATE TABLE generators (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, identity TEXT NOT NULL);
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, generator INTEGER NOT NULL REFERENCES generators, kind TEXT NOT NULL,
    prompt TEXT NOT NULL, prompt_hash TEXT NOT NULL, UNIQUE (generator, kind, prompt, prompt_hash)
);
CREATE TABLE responses (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, source INTEGER NOT NULL REFERENCES sources,
    made INTEGER NOT NULL, query TEXT NOT NULL, passages TEXT NOT NULL, response BLOB NOT NULL
);
CREATE TABLE failures (
    key BLOB PRIMARY KEY, source INTEGER NOT NULL REFERENCES sources, made INTEGER NOT NULL,
    query TEXT NOT NULL, passages TEXT NOT NULL, reason TEXT NOT NULL
);
CREATE TABLE claims (chunk BLOB PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL);
"""


def open_file(path: Path | None, *, create: bool = True) -> sqlite3.Connection:
    """Open a label store's file in autocommit mode; a store of format 1 becomes one of format 2.

    Args:
        path: The file; ``None`` is a database in memory.
        create: Whether a file that is not there may be made.

    Returns:
        The connection, in write-ahead mode.

    Raises:
        DataError: If the file is no label store, one of a later format, or not there.
    """
    if path is not None:
        if path.is_dir():
            raise DataError(f"{path}: is a folder; name a label store in it, such as the .sqlite beside labels.jsonl")
        if not create and not path.is_file():
            raise DataError(f"{path}: no such file; name a label store, such as the .sqlite beside labels.jsonl")
    try:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(":memory:" if path is None else path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            _prepare(db, path, create)
        except BaseException:
            db.close()
            raise
    except (sqlite3.Error, OSError) as error:
        raise DataError(
            f"{path}: cannot be used as a label store ({error}); give a path that can be written, and is "
            "a label store or nothing yet"
        ) from error
    return db


@contextmanager
def transaction(db: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Hold the one place of a writer (``DEFERRED``: see one state); commit at the end, roll back on an error."""
    db.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        # A full disk has ended it already; the reason is what must be heard of.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _prepare(db: sqlite3.Connection, path: Path | None, create: bool) -> None:
    # Looked at before anything is written: a file of somebody else's stays as it is to the last byte.
    with transaction(db, "DEFERRED"):
        found = _found_format(db, path, create)
    if found != FORMAT:
        with transaction(db):
            found = _found_format(db, path, create)
            if found == 1:
                _upgrade(db, path)
            elif found == 0:
                _make(db)
    _use_write_ahead_log(db)
    # With a write-ahead log this loses at most the last transactions at a power cut, never at a kill.
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
    db.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    db.execute(f"PRAGMA journal_size_limit={CHECKPOINT_PAGES * 4096}")


def _found_format(db: sqlite3.Connection, path: Path | None, create: bool) -> int:
    """Return the file's format, 0 for an empty file."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not found and not tables and create:
        return 0
    (application,) = db.execute("PRAGMA application_id").fetchone()
    ours = (found == FORMAT and application == APPLICATION) or (found == 1 and tables == {"responses"})
    if not ours:
        raise DataError(
            f"{path}: found an SQLite file of format {found}, expected a label store of format {FORMAT} or 1; "
            "give another --store path"
        )
    return int(found)


def _make(db: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";\n"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id={APPLICATION}")
    db.execute(f"PRAGMA user_version={FORMAT}")


def _upgrade(db: sqlite3.Connection, path: Path | None) -> None:
    """Turn format 1 into format 2, inside one transaction: after a kill the old file is there, unchanged."""
    say(f"{path}: a label store of format 1 becomes one of format {FORMAT}; its rows stay, each for its own generator")
    db.execute("ALTER TABLE responses RENAME TO format_1")
    _make(db)
    db.execute("INSERT INTO generators VALUES (1, '', '')")
    db.execute("INSERT INTO sources VALUES (1, 1, ?, '', '')", (FORMAT_1,))
    lost = 0
    insert = (
        "INSERT OR IGNORE INTO responses (key, source, made, query, passages, response) VALUES (?, 1, 0, '', '', ?)"
    )
    for key, text in db.execute("SELECT key, response FROM format_1"):
        data = _recoded(text)
        if data is None:
            lost += 1
        else:
            db.execute(insert, (bytes(key)[: KEY_BYTES - PROMPT_BYTES], data))
    db.execute("DROP TABLE format_1")
    if lost:
        warn(f"{path}: {lost} row(s) of format 1 could not be read and were left out; they are computed again")


def _recoded(text: str) -> bytes | None:
    try:
        return encode(from_json(text))
    except ValueError:
        return None


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    # Unlike everything else, this switch does not wait for a process that makes it at the same moment.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
