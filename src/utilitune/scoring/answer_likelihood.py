"""Answer likelihood: how likely the generator finds the gold answer when it sees the passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.confidence import mean_logprob
from utilitune.scoring.contexts import Template
from utilitune.scoring.gold_answers import GoldAnswers
from utilitune.scoring.protocol import Request, Responses, Value


class AnswerLikelihood:
    """Mean log-likelihood a token of the gold answer with the passages.

    Formula: ``max_a (1/T) sum_t ln p(a_t | q, D, a_<t)`` over the gold answers ``a``.
    Source: REPLUG LSR (arXiv 2301.12652), Atlas PDist (arXiv 2208.03299); the mean a token instead of the sum is ours,
    so that golds of different length compare.
    Range: ``(-inf, 0]`` nats a token.
    Needs: gold answers; no entropies.
    Cost: one prefill a passage set, and the gold answers' few tokens.
    No passages: the likelihood after the bare question.
    """

    needs_answers = True

    def __init__(self, *, prompt: str | Template = "answer") -> None:
        """Load the prompt."""
        self.golds = GoldAnswers(prompt)

    @property
    def name(self) -> str:
        """``answer-likelihood`` and any setting that is not the default one."""
        return f"answer-likelihood{self.golds.suffix}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The prompt."""
        return self.golds.parameters

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for the gold answers after the prompt with the passages."""
        return self.golds.requests("grounded", query, passages)

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Take the best gold answer."""
        best = self.golds.likeliest("grounded", query, responses, mean_logprob)
        number = mean_logprob(responses[f"grounded:{best}"])
        return Value(number, self.golds.evidence(["grounded"], query, responses, best))
