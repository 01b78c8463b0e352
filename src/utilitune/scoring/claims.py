"""Claims: processes that label into one store share the work instead of doing it twice."""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TypeVar
from uuid import uuid4

from utilitune.errors import DataError
from utilitune.progress import say
from utilitune.scoring.store import LabelStore
from utilitune.scoring.store_file import transaction

# A claim outlives its process by so much at most; a process of this machine that is gone loses it at once.
LEASE_SECONDS = 600.0
WAIT_SECONDS = 0.2
T = TypeVar("T")
# A container that starts again has the same host name and process numbers, and is another process all the same.
_PROCESS = uuid4().hex[:8]


class Claims:
    """What this process works on, written where the others look.

    Claims only say who computes what first. A claim that is lost (a lease that ran out, a process number met again)
    costs work done twice, never a wrong number: the first response of a key stays.
    """

    def __init__(self, store: LabelStore) -> None:
        """Claim in ``store``; in memory there is nobody to share with."""
        self._db = None if store.path is None else store.db
        self._path = store.path
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{_PROCESS}-{uuid4().hex[:8]}"

    def take(self, chunk: bytes) -> bool:
        """Claim a chunk unless another live process has it."""
        if self._db is None:
            return True
        now = time.time()
        try:
            with transaction(self._db):
                row = self._db.execute("SELECT owner, until FROM claims WHERE chunk = ?", (chunk,)).fetchone()
                if row is not None and row[0] != self.owner and row[1] > now and not _is_gone(row[0]):
                    return False
                claim = (chunk, self.owner, now + LEASE_SECONDS)
                self._db.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", claim)
        except sqlite3.Error as error:
            raise DataError(f"{self._path}: the label store cannot be written ({error})") from error
        return True

    def release(self, chunk: bytes) -> None:
        """Give a chunk up, done or not."""
        if self._db is not None:
            # What cannot be deleted runs out.
            with suppress(sqlite3.Error):
                self._db.execute("DELETE FROM claims WHERE chunk = ? AND owner = ?", (chunk, self.owner))

    def in_turn(self, chunks: Sequence[T], ids: Sequence[bytes]) -> Generator[tuple[int, T], None, None]:
        """Yield every chunk once: first those that nobody has, then, as others finish them, the rest.

        Args:
            chunks: The work.
            ids: What each chunk is claimed as.

        Yields:
            Place in ``chunks``, and chunk; claimed until the next one is asked for.
        """
        waiting = deque(range(len(chunks)))
        passed, said = 0, False
        while waiting:
            place = waiting.popleft()
            if not self.take(ids[place]):
                waiting.append(place)
                passed += 1
                if passed >= len(waiting):
                    if not said:
                        say(f"{self._path}: another process works on the last {len(waiting)} chunk(s); waiting for it")
                        said = True
                    time.sleep(WAIT_SECONDS)
                    passed = 0
                continue
            passed = 0
            try:
                yield place, chunks[place]
            finally:
                self.release(ids[place])


def chunk_id(parts: Sequence[str]) -> bytes:
    """Return what a chunk is claimed as: 16 bytes of the SHA-256 of everything that makes it the same work."""
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()[:16]


def _is_gone(owner: str) -> bool:
    """Tell whether the owner was a process of this machine that runs no more."""
    host, pid, process = owner.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    if int(pid) == os.getpid():
        return not process.startswith(_PROCESS)
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:  # somebody else's process
        return False
    return False
