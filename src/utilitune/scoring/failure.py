"""A response that is not there."""

from __future__ import annotations

from dataclasses import dataclass

from utilitune.generator.protocol import Continuation


@dataclass(frozen=True)
class Failure:
    """No response, and why."""

    reason: str


Answered = dict[bytes, Continuation | Failure]
