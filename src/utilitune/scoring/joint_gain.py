"""Joint gain: how much likelier the passages make the question and the generator's answer to it, together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.confidence import mean
from utilitune.scoring.contexts import Contexts, Template, spelled, worded
from utilitune.scoring.evidence import evidence
from utilitune.scoring.information_gain import grounded_under_both
from utilitune.scoring.protocol import Request, Responses, Value
from utilitune.scoring.question_gain import QuestionLikelihood


class JointGain:
    """Mean log-likelihood ratio of question and grounded answer, with against without the passages.

    Formula: ``(1/(S+T)) [sum_s ln p(q_s | D) / p(q_s) + sum_t ln p(y_t | q, D) / p(y_t | q)]`` over the S tokens of the
    question and the T tokens of the greedy grounded answer ``y_g``: the pointwise mutual information of the passages
    and the pair (question, answer), a token.
    Source: ours; ``question-gain`` (UPR, arXiv 2204.07496) and ``information-gain`` (GroGU's sibling, arXiv 2601.23129)
    are its two terms.
    Range: unbounded, in nats a token.
    Needs: no gold answers, no entropies.
    Cost: as ``information-gain`` and ``question-gain`` together, with which it shares every forward pass.
    No passages: exactly 0.
    """

    needs_answers = False

    def __init__(
        self,
        *,
        prompt: str | Template = "answer",
        question_prompt: str | Template = "question",
        max_new_tokens: int | None = None,
    ) -> None:
        """Load the prompts."""
        self.contexts = Contexts(prompt, max_new_tokens)
        self.question = QuestionLikelihood(question_prompt)

    @property
    def name(self) -> str:
        """``joint-gain`` and any setting that is not the default one."""
        template = self.question.template.name
        own = spelled(question_prompt=None if template == "question" else template)
        return f"joint-gain{self.contexts.suffix}{own}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Both prompts."""
        return {**self.contexts.parameters, "question": dict(self.question.parameters)}

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for the question and for the grounded answer, with and without the passages."""
        return {**grounded_under_both(self.contexts, query, passages), **self.question.requests(query, passages)}

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Average the log-probability gained over the tokens of both."""
        grounded = responses["grounded"]
        bare = responses["grounded_under_bare"] if worded(passages) else grounded
        answer = [ours - theirs for ours, theirs in zip(grounded.logprobs, bare.logprobs, strict=True)]
        question = self.question.gains(query, responses)
        asked = self.question.evidence(query, responses)
        facts = evidence(self.contexts.template, {"grounded": grounded, "grounded_under_bare": bare})
        facts["truncated"] = facts["truncated"] or asked["truncated"]
        facts |= {name: asked[name] for name in ("question", "question_bare")}
        facts["gain"] = {"question": mean(question), "answer": mean(answer)}
        return Value(mean([*question, *answer]), facts)
