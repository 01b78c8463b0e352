"""LLM relevance: whether the generator, as a judge, calls the passages relevant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, fsum
from typing import Any

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Continuation
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.contexts import Template, rendered, spelled, spellings, template, worded
from utilitune.scoring.gold_answers import distinct_golds
from utilitune.scoring.protocol import Force, Request, Responses, Value

LABELS = ("RELEVANT", "IRRELEVANT")


class LlmRelevance:
    """Probability that the judge says RELEVANT rather than IRRELEVANT.

    Formula: ``P(RELEVANT) / (P(RELEVANT) + P(IRRELEVANT))``, each the probability of all tokens of the word after the
    judge's prompt, in the likelier of its spellings with and without a leading space. The two words may take different
    numbers of tokens: compare values of one generator with each other, not with 0.5.
    Source: the judge that labels relevance where people have not (UDCG, arXiv 2510.21440); the ratio of scored words
    in place of a written verdict is ours.
    Range: ``[0, 1]``.
    Needs: no gold answers, but shows them to the judge where there are any (``answers=false``: never).
    Cost: one prefill a passage set and a few scored tokens.
    No passages: exactly 0 by definition; nothing is asked.
    """

    needs_answers = False

    def __init__(self, *, answers: bool = True, prompt: str | Template = "relevance") -> None:
        """Load the prompt.

        Args:
            answers: Whether the judge sees the query's gold answers.
            prompt: Packaged prompt, prompt file, or a loaded template.

        Raises:
            ConfigError: If ``answers`` is neither true nor false.
        """
        if not isinstance(answers, bool):
            raise ConfigError(f"answers is {answers!r}; expected true or false")
        self.answers = answers
        self.template = template(prompt)

    @property
    def name(self) -> str:
        """``llm-relevance`` and any setting that is not the default one."""
        return "llm-relevance" + spelled(
            answers=None if self.answers else "false",
            prompt=None if self.template.name == "relevance" else self.template.name,
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Whether gold answers are shown, the words, and the prompt."""
        return {
            "answers": self.answers,
            "labels": list(LABELS),
            "prompt": self.template.name,
            "prompt_hash": self.template.hash,
        }

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for both words, each in both spellings."""
        if not worded(passages):
            return {}
        prompt = rendered(self.template, query, passages, distinct_golds(query) if self.answers else ())
        return {text: Force(prompt, text) for label in LABELS for text in spellings(label)}

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Compare the two words."""
        facts: dict[str, Any] = {"prompt": self.template.name, "prompt_hash": self.template.hash}
        if not worded(passages):
            return Value(0.0, facts)
        relevant, irrelevant = (max(_logprob(responses[text]) for text in spellings(word)) for word in LABELS)
        facts["truncated"] = any(each.truncated for each in responses.values())
        facts["forms"] = {text: list(each.logprobs) for text, each in responses.items()}
        return Value(share(relevant, irrelevant), facts)


def share(ours: float, theirs: float) -> float:
    """Return ``e^ours / (e^ours + e^theirs)`` of two log-probabilities; both may be tiny."""
    if ours >= theirs:
        return 1 / (1 + exp(theirs - ours))
    odds = exp(ours - theirs)
    return odds / (1 + odds)


def _logprob(answer: Continuation) -> float:
    return fsum(answer.logprobs)
