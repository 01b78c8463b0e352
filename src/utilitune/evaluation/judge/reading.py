"""How a verdict is had from a judge: from JSON, from a letter, or from the probabilities of two letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, log
from typing import Protocol

from utilitune.errors import ConfigError
from utilitune.evaluation.judge.verdict import Position, parse_json, parse_letter
from utilitune.generator.prompt_template import PromptTemplate
from utilitune.generator.protocol import Continuation, Prompt
from utilitune.scoring.llm_relevance import share
from utilitune.scoring.protocol import Force, Greedy, Request, Responses, Sample

RETRY_TEMPERATURE = 0.7


@dataclass(frozen=True)
class Reply:
    """What a judge said of one dimension.

    Attributes:
        position: The position that won, ``None`` when the reply holds no verdict.
        raw: The reply as written, or the two letters' log-probabilities.
        p_first: Probability of the first letter, of the two alone.
        mass: Probability of both letters together.
    """

    position: Position | None
    raw: str
    p_first: float | None = None
    mass: float | None = None


class Reading(Protocol):
    """One way to ask for and read a verdict; pure, so that requests can be batched, stored and resumed."""

    @property
    def prompt(self) -> str:
        """Packaged prompt that it reads by default."""
        ...

    @property
    def joint(self) -> bool:
        """Whether one prompt asks for all dimensions."""
        ...

    @property
    def retries(self) -> bool:
        """Whether asking again can help."""
        ...

    def requests(self, prompt: Prompt, template: PromptTemplate, attempt: int) -> Mapping[str, Request]:
        """Return what to ask of the judge; ``attempt`` counts from 0, later ones are sampled."""
        ...

    def read(self, responses: Responses, dimensions: Sequence[str]) -> dict[str, Reply]:
        """Return one reply a dimension."""
        ...


def _written(prompt: Prompt, template: PromptTemplate, attempt: int) -> dict[str, Request]:
    """Ask for a greedy reply first, for a sampled one when that had no verdict."""
    stop = tuple(template.stop)
    if attempt == 0:
        return {"reply": Greedy(prompt, template.max_new_tokens, stop)}
    sample = Sample(prompt, 1, RETRY_TEMPERATURE, attempt, template.max_new_tokens, stop)
    return {"reply": sample.draws("reply")["reply-0"]}


class JsonReading:
    """All dimensions in one JSON reply, as HiRAG's evaluation asks (arXiv 2503.10150); for judges of some size."""

    prompt = "win-rate"
    joint = True
    retries = True

    def requests(self, prompt: Prompt, template: PromptTemplate, attempt: int) -> Mapping[str, Request]:
        """Ask for the reply."""
        return _written(prompt, template, attempt)

    def read(self, responses: Responses, dimensions: Sequence[str]) -> dict[str, Reply]:
        """Read the JSON."""
        raw = responses["reply"].text
        return {name: Reply(position, raw) for name, position in parse_json(raw, dimensions).items()}


class LetterReading:
    """One written letter a dimension."""

    prompt = "verdict"
    joint = False
    retries = True

    def requests(self, prompt: Prompt, template: PromptTemplate, attempt: int) -> Mapping[str, Request]:
        """Ask for the reply."""
        return _written(prompt, template, attempt)

    def read(self, responses: Responses, dimensions: Sequence[str]) -> dict[str, Reply]:
        """Read the letter."""
        raw = responses["reply"].text
        return {name: Reply(parse_letter(raw), raw) for name in dimensions}


class ProbabilityReading:
    """The probabilities of the two letters in the place of the reply: exact, and never without a verdict.

    Formula: ``p_first = P(A) / (P(A) + P(B))``, each letter summed over its spellings with and without a leading space.
    Over 0.5 the first answer wins, under 0.5 the second. Averaged over both orders, a preference for a position that
    adds the same log-odds everywhere drops out of the verdict.
    """

    prompt = "verdict"
    joint = False
    retries = False

    def requests(self, prompt: Prompt, template: PromptTemplate, attempt: int) -> Mapping[str, Request]:
        """Ask for both letters in both spellings, from one prefill."""
        return {text: Force(prompt, text) for letter in "AB" for text in (letter, f" {letter}")}

    def read(self, responses: Responses, dimensions: Sequence[str]) -> dict[str, Reply]:
        """Compare the letters."""
        first, second = (_mass(responses[letter], responses[f" {letter}"]) for letter in "AB")
        p_first = share(first, second)
        position: Position = "tie" if p_first == 0.5 else "first" if p_first > 0.5 else "second"
        reply = Reply(position, f"ln P(A) {first:.4f}, ln P(B) {second:.4f}", p_first, exp(first) + exp(second))
        return dict.fromkeys(dimensions, reply)


READINGS: Mapping[str, Callable[[], Reading]] = {
    "probability": ProbabilityReading,
    "letter": LetterReading,
    "json": JsonReading,
}


def make_reading(name: str) -> Reading:
    """Return a reading by name.

    Args:
        name: ``"probability"``, ``"letter"`` or ``"json"``.

    Returns:
        The reading.

    Raises:
        ConfigError: For an unknown name.
    """
    if name not in READINGS:
        raise ConfigError(f"unknown reading {name!r}; known: {', '.join(READINGS)}")
    return READINGS[name]()


def _mass(bare: Continuation, spaced: Continuation) -> float:
    """Return ln of the summed probability of two spellings."""
    one, other = fsum(bare.logprobs), fsum(spaced.logprobs)
    # The same tokens under both spellings are one event, not two.
    if bare.token_ids and bare.token_ids == spaced.token_ids:
        return one
    top = max(one, other)
    return top + log(exp(one - top) + exp(other - top))
