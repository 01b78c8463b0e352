"""The label store: responses of generators in one SQLite file, so that nothing is ever computed twice."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from utilitune.errors import DataError
from utilitune.generator.protocol import Continuation
from utilitune.scoring.origin import FORMAT_1, UNKNOWN, Origin, Source
from utilitune.scoring.response_codec import as_kept, decode, encode
from utilitune.scoring.response_key import KEY_BYTES, format_1_part
from utilitune.scoring.store_file import open_file, transaction

# SQLite's oldest limit on the number of variables of one statement is 999.
_KEYS_A_QUERY = 900
_NOTE = "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?)"
_INSERT = "INSERT OR IGNORE INTO responses (key, source, made, query, passages, response) VALUES (?, ?, ?, ?, ?, ?)"


class LabelStore:
    """Responses by key (see ``ResponseKeys``).

    What is kept are the generator's responses, not utilities: another confidence or threshold over the same
    responses needs no model. Every row says which generator gave it, to what kind of request, under which prompt, and
    for which query and passages, where the caller knows. Failed, empty and non-finite responses are never answered
    with; failures are noted with their reason and asked for again. Several processes may share one file (write-ahead
    log; the first writer of a key wins); keep it on a local disk.

    Attributes:
        hits: Keys found by ``get_many`` so far.
        misses: Keys asked for and not found.
        refused: Responses that ``put_many`` passed by, as numbers were missing or not finite.
        db: The open file, for the modules that look after stores.
    """

    hits: int
    misses: int
    refused: int
    db: sqlite3.Connection

    def __init__(self, path: Path | str | None = None, *, create: bool = True) -> None:
        """Open or create a store.

        Args:
            path: SQLite file; ``None`` is a store in memory that ends with the object.
            create: Whether a file that is not there may be made.

        Raises:
            DataError: If the file is no label store, one of a later format, or not there.
        """
        self.path = None if path is None else Path(path)
        self.hits = self.misses = self.refused = 0
        self.db = open_file(self.path, create=create)
        self._sources: dict[Source, int] = {}
        with self._trouble("read"):
            old = self.db.execute("SELECT 1 FROM sources WHERE kind = ?", (FORMAT_1,)).fetchone()
        self._has_format_1 = old is not None

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Continuation]:
        """Return the responses that are there, and count hits and misses over the distinct keys."""
        distinct = list(dict.fromkeys(keys))
        found = self._read(distinct)
        if self._has_format_1 and len(found) < len(distinct):
            short = {format_1_part(key): key for key in distinct if key not in found and len(key) == KEY_BYTES}
            found.update((short[key], response) for key, response in self._read(list(short)).items())
        self.hits += len(found)
        self.misses += len(distinct) - len(found)
        return found

    def put_many(
        self,
        responses: Mapping[bytes, Continuation],
        origins: Mapping[bytes, Origin] | None = None,
        failures: Mapping[bytes, str] | None = None,
    ) -> dict[bytes, Continuation]:
        """Keep the responses in one transaction: after a kill there are all of them or none.

        Args:
            responses: New responses by key; those that must not be kept are passed by.
            origins: Where they come from, by key; unknown when not given.
            failures: Why there is no response, by key.

        Returns:
            ``responses`` as the store now has them: where another process was first, its response.
        """
        encoded = ((key, encode(response)) for key, response in responses.items())
        data = {key: each for key, each in encoded if each is not None}
        self.refused += len(responses) - len(data)
        if not data and not failures:
            return dict(responses)
        origins = origins or {}
        with self._trouble("written"):
            self._number_sources(origins.values())
            with transaction(self.db):
                self.db.executemany(_NOTE, self._rows(failures or {}, origins))
                inserted = self.db.executemany(_INSERT, self._rows(data, origins)).rowcount if data else 0
        if inserted < len(data):
            return {**responses, **self._read(list(data))}
        return {**responses, **{key: as_kept(responses[key], kept) for key, kept in data.items()}}

    def _rows(self, data: Mapping[bytes, bytes | str], origins: Mapping[bytes, Origin]) -> list[tuple[object, ...]]:
        """Return table rows in the keys' order, which is the index's."""
        now = int(time.time())
        rows: list[tuple[object, ...]] = []
        for key in sorted(data):
            origin = origins.get(key, UNKNOWN)
            subject = origin.subject
            rows.append((key, self._sources[origin.source], now, subject.query_id, subject.passages, data[key]))
        return rows

    def _number_sources(self, origins: Iterable[Origin]) -> None:
        """Learn the numbers that sources have in this file; a new one gets one."""
        for source in {origin.source for origin in origins} | {UNKNOWN.source}:
            if source not in self._sources:
                self._sources[source] = self._number(source)
                # An identity that was damaged is mended by the next writer, who knows it.
                mended = (source.identity, source.generator, source.identity)
                self.db.execute("UPDATE generators SET identity = ? WHERE key = ? AND identity != ?", mended)

    def number_sources(self, sources: Mapping[int, Source]) -> dict[int, int]:
        """Return the numbers here of another file's sources, by their numbers there."""
        with self._trouble("written"):
            return {number: self._number(source) for number, source in sources.items()}

    def _number(self, source: Source) -> int:
        generator = (source.generator, source.identity)
        self.db.execute("INSERT OR IGNORE INTO generators (key, identity) VALUES (?, ?)", generator)
        (number,) = self.db.execute("SELECT id FROM generators WHERE key = ?", generator[:1]).fetchone()
        row = (number, source.kind, source.prompt, source.prompt_hash)
        self.db.execute("INSERT OR IGNORE INTO sources (generator, kind, prompt, prompt_hash) VALUES (?, ?, ?, ?)", row)
        where = "generator = ? AND kind = ? AND prompt = ? AND prompt_hash = ?"
        (found,) = self.db.execute(f"SELECT id FROM sources WHERE {where}", row).fetchone()
        return int(found)

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Continuation]:
        found: dict[bytes, Continuation] = {}
        with self._trouble("read"):
            for start in range(0, len(keys), _KEYS_A_QUERY):
                part = keys[start : start + _KEYS_A_QUERY]
                marks = ",".join("?" * len(part))
                query = f"SELECT key, response FROM responses WHERE key IN ({marks})"
                for key, data in self.db.execute(query, part):
                    found[key] = decode(data)
        return found

    @contextmanager
    def _trouble(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DataError(
                f"{self.path}: the label store cannot be {what} ({error}); everything committed before is kept"
            ) from error
        except ValueError as error:
            raise DataError(
                f"{self.path}: a row of the label store cannot be {what} ({error}); see `utilitune labels verify`"
            ) from error

    def stats(self) -> dict[str, int]:
        """Return ``responses`` kept, ``bytes`` of the database, and ``hits``, ``misses`` and ``refused`` so far."""
        (count,) = self.db.execute("SELECT count(*) FROM responses").fetchone()
        (pages,) = self.db.execute("PRAGMA page_count").fetchone()
        (size,) = self.db.execute("PRAGMA page_size").fetchone()
        counts = {"hits": self.hits, "misses": self.misses, "refused": self.refused}
        return {"responses": count, "bytes": pages * size, **counts}

    def close(self) -> None:
        """Close the file; a closed store cannot be used."""
        self.db.close()

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()
