"""The seam of a utility: what it asks of the generator, and the arithmetic on what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from utilitune.generator.protocol import Continuation, Prompt
from utilitune.records.passage import Passage
from utilitune.records.query import Query


@dataclass(frozen=True)
class Greedy:
    """Ask for the generator's own greedy answer. Responds with a ``Generation``."""

    prompt: Prompt
    max_new_tokens: int = 16
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rescore:
    """Score the tokens of another request's greedy answer under another prompt; gives a ``Continuation``."""

    prompt: Prompt
    of: Greedy


@dataclass(frozen=True)
class Force:
    """Score a given text after a prompt. Responds with a ``Continuation``."""

    prompt: Prompt
    text: str


Request = Greedy | Rescore | Force
Responses = Mapping[str, Continuation]


@dataclass(frozen=True)
class Value:
    """What a utility makes of the responses.

    Attributes:
        utility: The number; a non-finite one becomes a row with status ``invalid``.
        evidence: JSON-ready facts that the number was computed from.
    """

    utility: float
    evidence: Mapping[str, Any] = field(default_factory=dict)


class Utility(Protocol):
    """What a passage set is worth to the generator. Stateless; equal parameters mean equal numbers.

    ``requests`` and ``value`` are pure: the labelling loop batches requests across queries and utilities,
    removes repeats, caches the responses and resumes. Two utilities that ask for the same request share the
    forward pass. ``value`` may raise ``ValueError`` where the responses cannot give a number: the row is
    ``failed``.
    """

    @property
    def name(self) -> str:
        """Name as asked for, e.g. ``"grogu:key-entropy"`` or ``"information-gain"``."""
        ...

    @property
    def needs_answers(self) -> bool:
        """Whether gold answers are needed; reference-free utilities say ``False``."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Everything of the utility itself that can change the number (JSON-ready, hashed into the set)."""
        ...

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Return the named requests for one (query, passage set)."""
        ...

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Compute the utility from the responses, under the names that ``requests`` gave."""
        ...
