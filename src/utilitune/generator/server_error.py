"""What can go wrong between us and a server: one row, or all of them."""

from __future__ import annotations

from utilitune.errors import UtilituneError


class RequestFailed(UtilituneError, ValueError):
    """The server did not answer one request; a labelling run makes it a failed row and goes on.

    Args:
        reason: What happened.
        heard: Whether the server answered at all, be it with an error.
    """

    def __init__(self, reason: str, heard: bool = True) -> None:
        super().__init__(reason)
        self.heard = heard


class ServerUnusable(UtilituneError):
    """The server cannot be reached, refuses the key, or answers everything with the same error: no use to go on."""
