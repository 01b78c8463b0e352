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


@dataclass(frozen=True)
class Sample:
    """Answers drawn from the generator; asked for one by one (``Draw``), computed together from one prefill.

    Attributes:
        prompt: The prompt.
        n: Answers, >= 1.
        temperature: > 0. Log-probabilities and entropies are of temperature 1 whatever this is.
        seed: Seed of the sampler.
        max_new_tokens: Length limit of an answer in tokens, >= 1.
        stop: Strings that end an answer.
        top_p: Nucleus mass in (0, 1].
    """

    prompt: Prompt
    n: int = 10
    temperature: float = 1.0
    seed: int = 0
    max_new_tokens: int = 16
    stop: tuple[str, ...] = ()
    top_p: float = 1.0

    def draws(self, name: str) -> dict[str, Draw]:
        """Return one request an answer, named ``<name>-0`` ... ``<name>-<n-1>``."""
        return {f"{name}-{number}": Draw(self, number) for number in range(self.n)}


@dataclass(frozen=True)
class Draw:
    """Ask for one of the answers of a ``Sample``, counted from 0. Responds with a ``Generation``."""

    of: Sample
    number: int

    @property
    def prompt(self) -> Prompt:
        """Prompt of the sample."""
        return self.of.prompt


@dataclass(frozen=True)
class Contrast:
    """Score a text when the logits after ``other`` count against those after ``prompt``.

    Responds with a ``Continuation`` under ``softmax((1 + alpha) z - alpha z')``, from generators that are a
    ``ContrastScorer``; from others with a failure.
    """

    prompt: Prompt
    other: Prompt
    text: str
    alpha: float = 0.5


Request = Greedy | Rescore | Force | Draw | Contrast
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

    ``requests`` and ``value`` are pure (a utility may hold a fixed model of its own, as ``sper``'s judge is, when
    ``parameters`` name its weights): the labelling loop batches requests across queries and utilities,
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
