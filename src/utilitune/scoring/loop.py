"""LOOP: how much likelihood the gold answer loses when a passage leaves the list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.confidence import mean, mean_logprob
from utilitune.scoring.contexts import Template
from utilitune.scoring.gold_answers import GoldAnswers
from utilitune.scoring.protocol import Request, Responses, Value


class Loop:
    """Drop in the gold answer's mean log-likelihood when a passage is left out (leave one out).

    Formula: for each passage ``drop(d) = L(a | q, D) - L(a | q, D without d)``, with
    ``L(a | ..) = (1/T) sum_t ln p(a_t | .., a_<t)``; the utility is the mean drop over D. The gold answer (and its
    spelling) is the likeliest one with all of D, the same on both sides.
    Source: Atlas LOOP (arXiv 2208.03299). Atlas turns the drops of one list into a distribution over its passages;
    here each passage's own drop stands in ``evidence["drops"]``, in list order, and the mean of them makes the set's
    number. A passage alone in its set leaves the bare question behind.
    Range: unbounded, in nats a token; negative when the answer is likelier without.
    Needs: gold answers; no entropies.
    Cost: one prefill a passage set and one for each left-out passage (for a single passage, one a query).
    No passages: exactly 0.
    """

    needs_answers = True

    def __init__(self, *, prompt: str | Template = "answer") -> None:
        """Load the prompt."""
        self.golds = GoldAnswers(prompt)

    @property
    def name(self) -> str:
        """``loop`` and any setting that is not the default one."""
        return f"loop{self.golds.suffix}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The prompt, and how drops become one number."""
        return {"over_passages": "mean", **self.golds.parameters}

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for the gold answers with all passages, and with each one left out."""
        asked = self.golds.requests("all", query, passages)
        for number in range(len(passages)):
            asked.update(self.golds.requests(f"without {number}", query, _without(passages, number)))
        return asked

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Average the drops."""
        best = self.golds.likeliest("all", query, responses, mean_logprob)
        whole = mean_logprob(responses[f"all:{best}"])
        contexts = [f"without {number}" for number in range(len(passages))]
        drops = [whole - mean_logprob(responses[f"{context}:{best}"]) for context in contexts]
        facts = self.golds.evidence(["all", *contexts], query, responses, best)
        return Value(mean(drops) if drops else 0.0, {**facts, "drops": drops})


def _without(passages: Sequence[Passage], number: int) -> tuple[Passage, ...]:
    return (*passages[:number], *passages[number + 1 :])
