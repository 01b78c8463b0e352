"""UDCG's passage utility: how little the generator wants to abstain when it sees the passage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import exp, fsum
from typing import Any

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Continuation
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.contexts import Template, rendered, spelled, template
from utilitune.scoring.evidence import evidence
from utilitune.scoring.protocol import Force, Request, Responses, Value

WORD = "NO-RESPONSE"
SPELLINGS = {"reference": (WORD,), "likelier": (WORD, f" {WORD}")}
"""What the readings of one form ask for."""
SURFACE_FORMS = ("NO-RESPONSE", " NO-RESPONSE", "No-Response", " No-Response", "NO RESPONSE", " NO RESPONSE")


def first_token(forms: Sequence[Continuation]) -> float:
    """``P(first token)`` of the likelier form."""
    return max(exp(form.logprobs[0]) for form in forms)


def sequence(forms: Sequence[Continuation]) -> float:
    """``P(whole form)`` of the likelier form."""
    return max(exp(fsum(form.logprobs)) for form in forms)


def mass(forms: Sequence[Continuation]) -> float:
    """Sum of ``P(whole form)`` over the forms; one that extends another is part of it, not counted again."""
    kept: dict[tuple[int, ...] | tuple[str, ...], float] = {}
    for form in sorted(forms, key=lambda each: len(each.tokens)):
        spelling = form.token_ids or form.tokens
        if not any(spelling[: len(shorter)] == shorter for shorter in kept):
            kept[spelling] = exp(fsum(form.logprobs))
    return min(1.0, fsum(kept.values()))


READINGS: dict[str, Callable[[Sequence[Continuation]], float]] = {
    "first-token": first_token,
    "sequence": sequence,
    "mass": mass,
}


class Abstention:
    """How little the generator wants to abstain when it sees the passages.

    Formula: ``u = 1 - P(abstain | q, D)`` at the first answer position, with the document before the question and leave
    to reply NO-RESPONSE.
    Source: UDCG (arXiv 2510.21440).
    Readings of P: ``first-token`` (the reference's): probability of the first token of "NO-RESPONSE";
    ``sequence``: probability of all its tokens; ``mass``: sum of the sequence probabilities of several spellings.
    Spelling for the first two: ``reference``: "NO-RESPONSE" right after a chat template, as the published scorer reads
    it, and after a space where the model has none ("Answer: NO-RESPONSE"); ``likelier``: of the two, for chat models
    that begin their answers with a space.
    Range: ``[0, 1]``.
    Needs: no gold answers, no entropies. A model that never abstains makes u about 1 everywhere; labelling
    warns.
    Cost: one prefill a passage set and a few scored tokens.
    No passages: the same, of the question alone.
    """

    needs_answers = False

    def __init__(
        self,
        *,
        reading: str = "first-token",
        spelling: str | None = None,
        prompt: str | Template = "answer-abstain",
    ) -> None:
        """Pick the reading.

        Args:
            reading: A name in ``READINGS``.
            spelling: A name in ``SPELLINGS``; ``"reference"`` when ``None``. ``mass`` reads all of them.
            prompt: Packaged prompt, prompt file, or a loaded template.

        Raises:
            ConfigError: If there is no such reading or spelling, or a spelling is given to ``mass``.
        """
        if reading not in READINGS:
            raise ConfigError(f"abstention has no reading named {reading!r}; known: {', '.join(READINGS)}")
        if spelling is not None and spelling not in SPELLINGS:
            raise ConfigError(f"abstention has no spelling named {spelling!r}; known: {', '.join(SPELLINGS)}")
        if spelling is not None and reading == "mass":
            raise ConfigError(
                f"spelling={spelling} has no meaning for reading 'mass', which sums over all; leave it out"
            )
        self.reading = reading
        self.spelling = "all" if reading == "mass" else spelling or "reference"
        self.template = template(prompt)
        self.forms = SURFACE_FORMS if reading == "mass" else SPELLINGS[self.spelling]

    @property
    def name(self) -> str:
        """``abstention`` and any setting that is not the default one."""
        return "abstention" + spelled(
            reading=None if self.reading == "first-token" else self.reading,
            spelling=self.spelling if self.spelling == "likelier" else None,
            prompt=None if self.template.name == "answer-abstain" else self.template.name,
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The reading, the strings it reads, and the prompt."""
        return {
            "reading": self.reading,
            "spelling": self.spelling,
            "forms": list(self.forms),
            "prompt": self.template.name,
            "prompt_hash": self.template.hash,
        }

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for the abstention strings after the prompt."""
        prompt = rendered(self.template, query, passages)
        if self.spelling == "reference" and prompt.plain and not prompt.plain[-1].isspace():
            # A space at the end of a plain prompt moves to what is scored after it; a chat template has no use for it.
            prompt = replace(prompt, plain=f"{prompt.plain} ")
        return {form: Force(prompt, form) for form in self.forms}

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Subtract the probability of abstaining from 1."""
        forms = [responses[form] for form in self.forms]
        abstain = READINGS[self.reading](forms)
        facts = evidence(self.template, {})
        facts["truncated"] = any(form.truncated for form in forms)
        facts["abstain"] = abstain
        facts["forms"] = {text: list(form.logprobs) for text, form in zip(self.forms, forms, strict=True)}
        return Value(1.0 - abstain, facts)
