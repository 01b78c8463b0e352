"""Joint gain: how much the passages do for the question and for the generator's answer to it, in one number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.contexts import Template, spelled
from utilitune.scoring.grogu import Grogu
from utilitune.scoring.protocol import Request, Responses, Value
from utilitune.scoring.question_gain import QuestionGain


class JointGain:
    """Question gain plus the gain in confidence of the answer, both in nats a token.

    Formula: ``(1/S) sum_s [ln p(q_s | D, q_<s) - ln p(q_s | q_<s)] + γ(y_g | q, D) - γ(y_u | q)`` with γ the mean
    log-probability a token: ``question-gain`` plus ``grogu:mean-logprob``.
    Source: ours, of two published parts: UPR (arXiv 2204.07496) and GroGU (arXiv 2601.23129).
    Range: unbounded, in nats a token.
    Needs: no gold answers, no entropies.
    Cost: as ``grogu:mean-entropy`` and ``question-gain`` together, with which it shares every forward pass.
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
        self.answer = Grogu("mean-logprob", prompt=prompt, max_new_tokens=max_new_tokens)
        self.question = QuestionGain(prompt=question_prompt)

    @property
    def name(self) -> str:
        """``joint-gain`` and any setting that is not the default one."""
        template = self.question.question.template.name
        own = spelled(question_prompt=None if template == "question" else template)
        return f"joint-gain{self.answer.contexts.suffix}{own}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Those of the two parts."""
        return {**self.answer.parameters, "question": dict(self.question.parameters)}

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for what the two parts ask for."""
        return {**self.answer.requests(query, passages), **self.question.requests(query, passages)}

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Add the two parts."""
        answer = self.answer.value(query, passages, responses)
        question = self.question.value(query, passages, responses)
        facts = {**question.evidence, **answer.evidence}
        facts["truncated"] = question.evidence["truncated"] or answer.evidence["truncated"]
        facts["gain"] = {"question": question.utility, "answer": answer.utility}
        return Value(question.utility + answer.utility, facts)
