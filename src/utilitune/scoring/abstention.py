"""UDCG's passage utility: how little the generator wants to abstain when it sees the passage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp, fsum
from typing import Any

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Continuation
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.contexts import Template, spelled, template
from utilitune.scoring.evidence import evidence
from utilitune.scoring.protocol import Force, Request, Responses, Value

# A chat template ends right before the answer's first letter, a plain prompt ("Answer:") before a space. Which of the
# two a generator reads is its own affair, so both spellings are asked for and the likelier one is the answer's.
SPELLINGS = ("NO-RESPONSE", " NO-RESPONSE")
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
    The first two take the likelier of the spellings with and without a leading space.
    Range: ``[0, 1]``.
    Needs: no gold answers, no entropies. A model that never abstains makes u about 1 everywhere; labelling
    warns.
    Cost: one prefill a passage set and a few scored tokens.
    """

    needs_answers = False

    def __init__(self, *, reading: str = "first-token", prompt: str | Template = "answer-abstain") -> None:
        """Pick the reading.

        Args:
            reading: A name in ``READINGS``.
            prompt: Packaged prompt, prompt file, or a loaded template.

        Raises:
            ConfigError: If there is no such reading.
        """
        if reading not in READINGS:
            raise ConfigError(f"abstention has no reading named {reading!r}; known: {', '.join(READINGS)}")
        self.reading = reading
        self.template = template(prompt)
        self.forms = SURFACE_FORMS if reading == "mass" else SPELLINGS

    @property
    def name(self) -> str:
        """``abstention`` and any setting that is not the default one."""
        return "abstention" + spelled(
            reading=None if self.reading == "first-token" else self.reading,
            prompt=None if self.template.name == "answer-abstain" else self.template.name,
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The reading, the strings it reads, and the prompt."""
        return {
            "reading": self.reading,
            "forms": list(self.forms),
            "prompt": self.template.name,
            "prompt_hash": self.template.hash,
        }

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for the abstention strings after the prompt."""
        prompt = self.template.render(question=query.text, passages=tuple(passages), history=tuple(query.history))
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
