"""DIG: how much probability the passages add to the gold answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, fsum
from typing import Any

from utilitune.generator.protocol import Continuation
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.confidence import mean
from utilitune.scoring.contexts import Template
from utilitune.scoring.gold_answers import GoldAnswers
from utilitune.scoring.protocol import Request, Responses, Value

FIRST = 3
FIRST_WEIGHT = 0.8


def weighted_probability(answer: Continuation) -> float:
    """Return the geometric mean of the token probabilities in which the first three tokens weigh 0.8, in [0, 1].

    ``exp(0.8 mean_{t<=3} ln p_t + 0.2 mean_{t>3} ln p_t)``; answers of up to three tokens: the plain geometric mean.
    """
    head, tail = answer.logprobs[:FIRST], answer.logprobs[FIRST:]
    if not tail:
        return exp(mean(head))
    return exp(fsum((FIRST_WEIGHT * mean(head), (1 - FIRST_WEIGHT) * mean(tail))))


class Dig:
    """Document information gain: probability of the gold answer with minus without the passages.

    Formula: ``p~(a | q, D) - p~(a | q)``, with ``p~(a) = exp(0.8 mean_{t<=3} ln p_t + 0.2 mean_{t>3} ln p_t)``; the
    gold answer (and its spelling) is the likeliest one with the passages, the same on both sides.
    Source: InfoGain-RAG (arXiv 2509.12765). The paper's idea is the difference of length-normalised confidences in
    which the first tokens weigh most; how the weights 0.8 and 0.2 are spread (geometric means of the two parts) is a
    reconstruction, and its smoothing window over token probabilities is left out.
    Range: ``[-1, 1]``.
    Needs: gold answers; no entropies.
    Cost: one prefill a passage set, one a query, and the gold answers' few tokens in both contexts.
    No passages: exactly 0.
    """

    needs_answers = True

    def __init__(self, *, prompt: str | Template = "answer") -> None:
        """Load the prompt."""
        self.golds = GoldAnswers(prompt)

    @property
    def name(self) -> str:
        """``dig`` and any setting that is not the default one."""
        return f"dig{self.golds.suffix}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The weights and the prompt."""
        return {"first": FIRST, "first_weight": FIRST_WEIGHT, **self.golds.parameters}

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for the gold answers with the passages and after the bare question."""
        return {
            **self.golds.requests("grounded", query, passages),
            **self.golds.requests("bare", query, ()),
        }

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Subtract the two probabilities."""
        best = self.golds.likeliest("grounded", query, responses, weighted_probability)
        likely = {context: weighted_probability(responses[f"{context}:{best}"]) for context in ("grounded", "bare")}
        facts = self.golds.evidence(["grounded", "bare"], query, responses, best)
        return Value(likely["grounded"] - likely["bare"], {**facts, "probability": likely})
