"""Question gain: how much likelier the passages make the question itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.generator.protocol import Continuation, Prompt
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.confidence import mean, mean_logprob
from utilitune.scoring.contexts import SPELLINGS, Template, spelled, spellings, template, worded
from utilitune.scoring.protocol import Force, Request, Responses, Value


class QuestionGain:
    """Mean log-likelihood ratio of the question's own words, after against without the passages.

    Formula: ``(1/T) sum_t [ln p(q_t | D, q_<t) - ln p(q_t | q_<t)]`` over the question's tokens. In a conversation the
    question is the first question followed by the last one: what the last one leaves out was mostly said first, and
    as a condition instead of a part of the text the earlier turns make the passage count for less (docs/log.md).
    Source: question generation as relevance (UPR, arXiv 2204.07496), less what the question is worth without passages.
    Range: unbounded, in nats a token; negative when the passages make the question less likely.
    Needs: no gold answers, no entropies.
    Cost: one prefill a passage set and one a query, with the question's few tokens; nothing is decoded.
    No passages: exactly 0.
    """

    needs_answers = False

    def __init__(self, *, prompt: str | Template = "question") -> None:
        """Load the prompt: a packaged one, a prompt file, or a loaded template."""
        self.question = QuestionLikelihood(prompt)

    @property
    def name(self) -> str:
        """``question-gain`` and any setting that is not the default one."""
        return f"question-gain{self.question.suffix}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The prompt."""
        return self.question.parameters

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for the question after the passages, and without them."""
        return self.question.requests(query, passages)

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Average the log-probability gained a token."""
        return Value(mean(self.question.gains(query, responses)), self.question.evidence(query, responses))


class QuestionLikelihood:
    """Asks for the question as the text that follows the passages, and as the text that follows nothing.

    As with gold answers, the question is asked for with and without a leading space, since which of the two a generator
    reads after its prompt is its own affair. The spelling that is likelier without passages counts, so that all
    passages of a query are compared by one and the same.
    """

    def __init__(self, prompt: str | Template = "question") -> None:
        """Load the prompt."""
        self.template = template(prompt)

    def requests(self, query: Query, passages: Sequence[Passage]) -> dict[str, Request]:
        """Return requests named ``question:<spelling>`` and ``question_bare:<spelling>``."""
        after, alone = self._prompt(worded(passages)), self._prompt(())
        spellings = _spellings(query)
        return {
            **{f"question:{text}": Force(after, text) for text in spellings},
            **{f"question_bare:{text}": Force(alone, text) for text in spellings},
        }

    def gains(self, query: Query, responses: Responses) -> list[float]:
        """Return the log-probability gained, in nats, a token of the question."""
        after, alone = self._chosen(query, responses)
        return [ours - theirs for ours, theirs in zip(after.logprobs, alone.logprobs, strict=True)]

    def evidence(self, query: Query, responses: Responses) -> dict[str, Any]:
        """Describe the question's tokens and their log-probabilities in both contexts."""
        after, alone = self._chosen(query, responses)
        return {
            "prompt": self.template.name,
            "prompt_hash": self.template.hash,
            "truncated": after.truncated or alone.truncated,
            "question": {"text": after.text, "tokens": list(after.tokens), "logprobs": list(after.logprobs)},
            "question_bare": {"text": alone.text, "tokens": list(alone.tokens), "logprobs": list(alone.logprobs)},
        }

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
        return spelled(prompt=None if self.template.name == "question" else self.template.name)

    def _prompt(self, passages: Sequence[Passage]) -> Prompt:
        return self.template.render(question="", passages=tuple(passages))

    def _chosen(self, query: Query, responses: Responses) -> tuple[Continuation, Continuation]:
        best = max(_spellings(query), key=lambda text: mean_logprob(responses[f"question_bare:{text}"]))
        return responses[f"question:{best}"], responses[f"question_bare:{best}"]


def _spellings(query: Query) -> tuple[str, str]:
    return spellings(query.first_and_last.strip())
