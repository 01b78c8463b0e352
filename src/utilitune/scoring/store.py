"""The label store: responses of generators in one SQLite file, so that nothing is ever computed twice."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from utilitune.errors import DataError
from utilitune.generator.protocol import Continuation
from utilitune.scoring.response_codec import decode, encode, is_storable

FORMAT = 1
BUSY_SECONDS = 120.0
# SQLite's oldest limit on the number of variables of one statement is 999.
_KEYS_A_QUERY = 900


class LabelStore:
    """Responses by key (see ``ResponseKeys``).

    What is kept are the generator's responses, not utilities: another confidence or threshold over the same
    responses needs no model. Failed, empty and non-finite responses are never kept. Several processes may
    share one file (write-ahead log; the first writer of a key wins); keep it on a local disk.

    Attributes:
        hits: Keys found by ``get_many`` so far.
        misses: Keys asked for and not found.
    """

    hits: int
    misses: int

    def __init__(self, path: Path | str | None = None) -> None:
        """Open or create a store.

        Args:
            path: SQLite file; ``None`` is a store in memory that ends with the object.

        Raises:
            DataError: If the file is no label store, or one of another format.
        """
        self.path = None if path is None else Path(path)
        self.hits = 0
        self.misses = 0
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(
                ":memory:" if self.path is None else self.path, timeout=BUSY_SECONDS, isolation_level=None
            )
            self._prepare()
        except sqlite3.Error as error:
            raise DataError(
                f"{self.path}: cannot be used as a label store ({error}); give a path that can be written, and is "
                "a label store or nothing yet"
            ) from error

    def _prepare(self) -> None:
        self._use_write_ahead_log()
        # With a write-ahead log this loses at most the last transactions at a power cut, never at a kill.
        self._db.execute("PRAGMA synchronous=NORMAL")
        with self._transaction():
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if found != FORMAT and (found or tables):
                raise DataError(
                    f"{self.path}: found an SQLite file of format {found}, expected a label store of "
                    f"format {FORMAT}; give another --store path"
                )
            self._db.execute("CREATE TABLE IF NOT EXISTS responses (key BLOB PRIMARY KEY, response TEXT)")
            self._db.execute(f"PRAGMA user_version={FORMAT}")

    def _use_write_ahead_log(self) -> None:
        # Unlike everything else, this switch does not wait for a process that makes it at the same moment.
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Continuation]:
        """Return the responses that are there, and count hits and misses over the distinct keys."""
        distinct = list(dict.fromkeys(keys))
        found = self._read(distinct)
        self.hits += len(found)
        self.misses += len(distinct) - len(found)
        return found

    def put_many(self, responses: Mapping[bytes, Continuation]) -> dict[bytes, Continuation]:
        """Keep the responses in one transaction: after a kill there are all of them or none.

        Args:
            responses: New responses by key; those that must not be kept are passed by.

        Returns:
            ``responses`` as the store now has them: where another process was first, its response.
        """
        rows = [(key, encode(response)) for key, response in responses.items() if is_storable(response)]
        if not rows:
            return dict(responses)
        before = self._db.total_changes
        with self._trouble("written"), self._transaction():
            self._db.executemany("INSERT OR IGNORE INTO responses VALUES (?, ?)", rows)
        if self._db.total_changes - before == len(rows):
            return {**responses, **{key: decode(text) for key, text in rows}}
        return {**responses, **self._read([key for key, _ in rows])}

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Continuation]:
        found: dict[bytes, Continuation] = {}
        with self._trouble("read"):
            for start in range(0, len(keys), _KEYS_A_QUERY):
                part = keys[start : start + _KEYS_A_QUERY]
                marks = ",".join("?" * len(part))
                query = f"SELECT key, response FROM responses WHERE key IN ({marks})"
                found.update((bytes(key), decode(text)) for key, text in self._db.execute(query, part))
        return found

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _trouble(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DataError(
                f"{self.path}: the label store cannot be {what} ({error}); everything committed before is kept"
            ) from error

    def stats(self) -> dict[str, int]:
        """Return ``responses`` kept, ``bytes`` of the database, and ``hits`` and ``misses`` so far."""
        (count,) = self._db.execute("SELECT count(*) FROM responses").fetchone()
        (pages,) = self._db.execute("PRAGMA page_count").fetchone()
        (size,) = self._db.execute("PRAGMA page_size").fetchone()
        return {"responses": count, "bytes": pages * size, "hits": self.hits, "misses": self.misses}

    def close(self) -> None:
        """Close the file; a closed store cannot be used."""
        self._db.close()

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()
