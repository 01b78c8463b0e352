"""Information gain: how much likelier the passages make the generator's grounded answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.confidence import mean
from utilitune.scoring.contexts import Contexts, Template, worded
from utilitune.scoring.evidence import evidence
from utilitune.scoring.protocol import Request, Rescore, Responses, Value


class InformationGain:
    """Mean log-likelihood ratio of the grounded answer, with against without the passages.

    Formula: ``(1/T) sum_t [ln p(y_t | q, D, y_<t) - ln p(y_t | q, y_<t)]`` over the greedy grounded answer
    ``y_g``.
    Source: sibling of GroGU (arXiv 2601.23129), with the same passes.
    Range: unbounded, in nats a token; negative when the bare question already favours the answer more.
    Needs: no gold answers, no entropies.
    Cost: one prefill and greedy decoding a passage set; one prefill a query, which scores all its answers.
    No passages: exactly 0.
    """

    needs_answers = False

    def __init__(self, *, prompt: str | Template = "answer", max_new_tokens: int | None = None) -> None:
        """Load the prompt."""
        self.contexts = Contexts(prompt, max_new_tokens)

    @property
    def name(self) -> str:
        """``information-gain`` and any setting that is not the default one."""
        return f"information-gain{self.contexts.suffix}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The prompt."""
        return self.contexts.parameters

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for the grounded answer, and for its tokens after the bare question."""
        return grounded_under_both(self.contexts, query, passages)

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Average the log-probability gained a token."""
        grounded = responses["grounded"]
        bare = responses["grounded_under_bare"] if worded(passages) else grounded
        gains = [ours - theirs for ours, theirs in zip(grounded.logprobs, bare.logprobs, strict=True)]
        return Value(mean(gains), evidence(self.contexts.template, dict(responses)))


def grounded_under_both(contexts: Contexts, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
    """Ask for the grounded answer and its tokens under both contexts (one and the same without passages)."""
    grounded = contexts.grounded(query, passages)
    if not worded(passages):
        return {"grounded": grounded}
    return {"grounded": grounded, "grounded_under_bare": Rescore(contexts.bare(query).prompt, grounded)}
