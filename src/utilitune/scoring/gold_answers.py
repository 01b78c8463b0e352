"""Likelihood of the gold answers after a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from utilitune.generator.protocol import Continuation, Prompt
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.answer_match import usable_golds
from utilitune.scoring.contexts import SPELLINGS, Template, rendered, spelled, spellings, template
from utilitune.scoring.protocol import Force, Request, Responses

Measure = Callable[[Continuation], float]


def distinct_golds(query: Query) -> list[str]:
    """Return the distinct gold answers that are not blank, stripped; there may be none."""
    return list(dict.fromkeys(gold.strip() for gold in usable_golds(query.answers)))


def gold_answers(query: Query) -> list[str]:
    """Return ``distinct_golds``, at least one.

    Args:
        query: A query.

    Returns:
        Gold answers.

    Raises:
        ValueError: If there is none.
    """
    golds = distinct_golds(query)
    if not golds:
        raise ValueError(f"query {query.id!r} has no gold answer, or only blank ones")
    return golds


class GoldAnswers:
    """Asks for the gold answers after the answer prompt, with any passages.

    Every gold answer is asked for with and without a leading space: a chat template ends right before the answer, a
    plain prompt ("Answer:") before a space, and which of the two a generator reads is its own affair. The likelier
    spelling counts.
    """

    def __init__(self, prompt: str | Template = "answer") -> None:
        """Load the prompt: a packaged one, a prompt file, or a loaded template."""
        self.template = template(prompt)

    def prompt(self, query: Query, passages: Sequence[Passage]) -> Prompt:
        """Return the prompt with ``passages``; without any, the bare question."""
        return rendered(self.template, query, passages)

    def spellings(self, query: Query) -> list[str]:
        """Return every gold answer without and with a leading space."""
        return [spelling for gold in gold_answers(query) for spelling in spellings(gold)]

    def requests(self, context: str, query: Query, passages: Sequence[Passage]) -> dict[str, Request]:
        """Ask for all spellings in one context; names are ``<context>:<spelling>``."""
        prompt = self.prompt(query, passages)
        return {f"{context}:{text}": Force(prompt, text) for text in self.spellings(query)}

    def responses(self, context: str, query: Query, responses: Responses) -> dict[str, Continuation]:
        """Return the responses of one context by spelling."""
        return {text: responses[f"{context}:{text}"] for text in self.spellings(query)}

    def likeliest(self, context: str, query: Query, responses: Responses, measure: Measure) -> str:
        """Return the spelling with the highest ``measure`` in a context; the first one of equals."""
        scored = self.responses(context, query, responses)
        return max(scored, key=lambda text: measure(scored[text]))

    def evidence(self, contexts: Sequence[str], query: Query, responses: Responses, best: str) -> dict[str, Any]:
        """Describe the scored spellings: the one that counted, and log-probabilities by context and spelling."""
        facts: dict[str, Any] = {"prompt": self.template.name, "prompt_hash": self.template.hash, "gold": best}
        scored = {context: self.responses(context, query, responses) for context in contexts}
        facts["truncated"] = any(each.truncated for texts in scored.values() for each in texts.values())
        for context, texts in scored.items():
            facts[context] = {text: list(each.logprobs) for text, each in texts.items()}
        return facts

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What of this can change a number."""
        return {
            "prompt": self.template.name,
            "prompt_hash": self.template.hash,
            "spellings": list(SPELLINGS),
        }

    @property
    def suffix(self) -> str:
        """The part of a utility's name that tells of a prompt other than the default one."""
        return spelled(prompt=None if self.template.name == "answer" else self.template.name)
