"""JSON over HTTP with bounded concurrency, bounded retries, and an end to a failure that repeats itself."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from utilitune.generator.server_address import ServerAddress
from utilitune.generator.server_error import RequestFailed, ServerUnusable

Json = Mapping[str, Any]

# Of the 4xx codes only these may answer otherwise next time: timeout, conflict, too many requests.
_PASSING = frozenset({408, 409, 429})
_LONGEST_WAIT = 60.0


@dataclass(frozen=True)
class Patience:
    """How long a server is tried.

    Attributes:
        concurrency: Requests at a time, >= 1.
        timeout: Seconds that one request may take.
        attempts: Times that one request is sent, >= 1.
        backoff: Seconds before the second attempt, doubled each time, unless the server names a time.
        equal_failures: Different requests in a row that may fail for one reason before all stops.
    """

    concurrency: int = 8
    timeout: float = 120.0
    attempts: int = 4
    backoff: float = 0.5
    equal_failures: int = 10


class _NoRedirect(HTTPRedirectHandler):
    """A redirect would carry the key to another host."""

    def redirect_request(self, *args: Any) -> None:
        """Follow none; the status becomes the error."""


class _Passing(Exception):
    """A failure that the next attempt may not meet."""

    def __init__(self, reason: str, wait: float | None = None, heard: bool = True) -> None:
        super().__init__(reason)
        self.wait = wait
        self.heard = heard


class ServerClient:
    """Sends requests to one server.

    Args:
        address: The server.
        patience: Limits.
    """

    def __init__(self, address: ServerAddress, patience: Patience | None = None) -> None:
        self.address = address
        self.patience = patience or Patience()
        self.counts = {"requests": 0, "retries": 0, "failed_requests": 0}
        self._opener = build_opener(_NoRedirect)
        self._lock = threading.Lock()
        self._same: tuple[str, set[str]] = ("", set())
        self._stopped = ""

    def get(self, path: str) -> Json:
        """Fetch ``path``; it fails as ``post`` does."""
        return self._tried(path, None)

    def post(self, path: str, body: Json) -> Json:
        """Send one request.

        Args:
            path: Path after the base URL, such as ``"/completions"``.
            body: JSON-ready body.

        Returns:
            The reply.

        Raises:
            RequestFailed: When the server refuses it, or every attempt failed.
            ServerUnusable: When nothing else can succeed either.
        """
        return self._tried(path, json.dumps(body, sort_keys=True, allow_nan=False).encode())

    def post_all(self, calls: Sequence[tuple[str, Json]]) -> list[Json | RequestFailed]:
        """Send many requests, a few at a time.

        Args:
            calls: ``(path, body)``.

        Returns:
            Reply or failure of each call, in the calls' order whatever order the server answers in.

        Raises:
            ServerUnusable: When the server answers everything with one error; what was not sent yet stays unsent.
        """

        def one(call: tuple[str, Json]) -> Json | RequestFailed:
            try:
                return self.post(*call)
            except RequestFailed as failure:
                return failure

        with self._lock:
            if self._stopped:  # whoever asks again has been told, and may have mended the server
                self._same, self._stopped = ("", set()), ""
        pool = ThreadPoolExecutor(min(self.patience.concurrency, max(len(calls), 1)))
        try:
            return list(pool.map(one, calls))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def forget(self) -> None:
        """Begin anew with counts and equal failures: a probe may fail and be no trouble."""
        with self._lock:
            self.counts = dict.fromkeys(self.counts, 0)
            self._same, self._stopped = ("", set()), ""

    def _tried(self, path: str, data: bytes | None) -> Json:
        if self._stopped:
            raise ServerUnusable(self._stopped)
        name = hashlib.sha256(path.encode() + (data or b"")).hexdigest()
        for attempt in range(1, self.patience.attempts + 1):
            try:
                reply = self._once(path, data)
            except _Passing as failure:
                if attempt == self.patience.attempts or self._stopped:
                    raise self._failed(f"{failure}, {attempt} times", name, failure.heard) from None
                self._count("retries")
                wait = self.patience.backoff * 2 ** (attempt - 1) if failure.wait is None else failure.wait
                time.sleep(min(wait, _LONGEST_WAIT))
            except RequestFailed as failure:
                raise self._failed(str(failure), name) from None
            else:
                with self._lock:
                    self._same = ("", set())
                return reply
        raise AssertionError("a loop of at least one attempt ends inside")

    def _once(self, path: str, data: bytes | None) -> Json:
        self._count("requests")
        request = Request(self.address.shown + path, data, self.address.headers())
        try:
            with self._opener.open(request, timeout=self.patience.timeout) as answer:
                reply = json.loads(answer.read())
        except HTTPError as error:
            with error:
                raise self._refused(error, path) from None
        except (URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise _Passing(f"{self.address.shown} did not answer ({type(reason).__name__})", heard=False) from None
        except ValueError:
            raise _Passing(f"{self.address.shown}{path} answered with something that is not JSON") from None
        if not isinstance(reply, Mapping):
            raise RequestFailed(f"{self.address.shown}{path} answered with a {type(reply).__name__}, not an object")
        return reply

    def _refused(self, error: HTTPError, path: str) -> Exception:
        code = error.code
        if code in (401, 403):
            variable = self.address.key_variable
            return ServerUnusable(
                f"{self.address.shown} refused the key (HTTP {code}); set {variable} to one that it knows"
            )
        said = self._said(error)
        text = f"{self.address.shown}{path} answered HTTP {code}{': ' + said if said else ''}"
        if code in (404, 405):
            return RequestFailed(f"{text}; check base_url (it usually ends in /v1) and model")
        if code in _PASSING or code >= 500:
            return _Passing(text, _retry_after(error.headers.get("Retry-After")))
        return RequestFailed(text)

    def _said(self, error: HTTPError) -> str:
        """Return the server's own words, shortened and without our key."""
        try:
            text = error.read(4096).decode("utf-8", "replace")
        except (OSError, HTTPException):
            return ""
        try:
            body = json.loads(text)
            inner = body.get("error", body) if isinstance(body, dict) else body
            text = str(inner.get("message", inner)) if isinstance(inner, dict) else str(inner)
        except ValueError:
            pass
        return self.address.redact(" ".join(text.split()))[:300]

    def _failed(self, reason: str, name: str, heard: bool = True) -> Exception:
        """Count a failure; the same one of many different requests ends everything."""
        self._count("failed_requests")
        with self._lock:
            before, names = self._same
            names = {*names, name} if before == reason else {name}
            self._same = (reason, names)
            if len(names) >= self.patience.equal_failures:
                self._stopped = f"stopped after {len(names)} requests failed alike: {reason}"
                return ServerUnusable(self._stopped)
        return RequestFailed(reason, heard)

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1


def _retry_after(value: str | None, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for: a number, or a date."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now())
    except ValueError:
        return None
