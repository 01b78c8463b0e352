"""Where a server is and what it is shown: the key and the password stay in here."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from utilitune.errors import ConfigError

KEY_VARIABLE = "OPENAI_API_KEY"


class ServerAddress:
    """A base URL and the authorisation that goes with it.

    Args:
        base_url: ``http(s)://host[:port]/v1``; a user and password in it become basic authorisation.
        key_variable: Environment variable with the API key; ``None`` looks for ``OPENAI_API_KEY``, which may be unset.
        environment: The environment; ``os.environ`` when not given.

    Raises:
        ConfigError: For an address that is none, a named variable that is not set, or a key that no header can hold.
            The text never holds the key, the user or the password.
    """

    def __init__(
        self, base_url: str, key_variable: str | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(
                "base_url must look like http://HOST:PORT/v1, without query; the key goes into a variable"
            )
        host = parts.netloc.rpartition("@")[2]
        self.shown = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        """The address without credentials, for identities and messages."""
        environment = os.environ if environment is None else environment
        self.key_variable = key_variable or KEY_VARIABLE
        key = environment.get(self.key_variable, "").strip()
        if key_variable and not key:
            raise ConfigError(f"the environment variable {key_variable} holds no API key; set it, or leave it out")
        # http.client would quote such a key in its error.
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(
                f"the API key in {self.key_variable} holds characters that no HTTP header can; set it anew"
            )
        self._secrets = [key] if key else []
        self._authorization = f"Bearer {key}" if key else ""
        if parts.username is not None and not key:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._authorization = "Basic " + base64.b64encode(pair.encode()).decode()
        self._secrets += [secret for secret in (parts.password, unquote(parts.password or "")) if secret]

    def headers(self) -> dict[str, str]:
        """Return the headers of a request."""
        plain = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "utilitune"}
        return {**plain, "Authorization": self._authorization} if self._authorization else plain

    def redact(self, text: str) -> str:
        """Return a text of the server without our secrets, should it repeat them."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def __repr__(self) -> str:
        return f"ServerAddress({self.shown!r})"
