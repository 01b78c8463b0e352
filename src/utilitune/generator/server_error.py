"""What can go wrong between us and a server: one row, or all of them."""

from __future__ import annotations

from utilitune.errors import UtilituneError


class RequestFailed(UtilituneError, ValueError):
    """The server did not answer one request; a labelling run makes it a failed row and goes on."""


class ServerUnusable(UtilituneError):
    """The server cannot be reached, refuses the key, or answers everything with the same error: no use to go on."""
