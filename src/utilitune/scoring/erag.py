"""eRAG: how good the generator's answer is when it sees the passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.errors import ConfigError
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.answer_match import ANSWER_MEASURES
from utilitune.scoring.contexts import Contexts, Template, spelled
from utilitune.scoring.evidence import evidence
from utilitune.scoring.gold_answers import gold_answers
from utilitune.scoring.list_measures import LIST_MEASURES
from utilitune.scoring.protocol import Request, Responses, Value

DEFAULT_METRIC = "F1"


class Erag:
    """Answer metric of the generator's greedy answer from the passages alone.

    Formula: ``max_a metric(y_g, a)`` over the gold answers ``a``, with ``y_g`` the greedy answer to ``q`` from ``D``;
    metric is ``EM``, ``F1`` (default: the finest) or ``contains``, on normalised strings. With ``over``, a ranked list
    is measured by its passages one by one, as in the paper: ``g_i`` is the metric of the answer from ``d_i`` alone, and
    ``precision`` is their mean (P@k), ``success`` the largest, ``ndcg`` DCG over the DCG of the same gains sorted.
    Source: eRAG (arXiv 2404.13781).
    Range: ``[0, 1]``; ``EM`` and ``contains`` are 0 or 1, so expect many ties.
    Needs: gold answers; no log-probabilities, no entropies.
    Cost: one prefill and greedy decoding a passage set (with ``over``: a passage), shared with ``information-gain`` and
    ``grogu``.
    No passages: the metric of the answer to the bare question; with ``over`` exactly 0, nothing is asked.
    """

    needs_answers = True

    def __init__(
        self,
        *,
        metric: str = DEFAULT_METRIC,
        over: str | None = None,
        prompt: str | Template = "answer",
        max_new_tokens: int | None = None,
    ) -> None:
        """Pick the metric.

        Args:
            metric: A name in ``ANSWER_MEASURES``.
            over: A name in ``LIST_MEASURES``, for the passages one by one; ``None`` for all of them in one prompt.
            prompt: Packaged prompt, prompt file, or a loaded template.
            max_new_tokens: Length limit of an answer in tokens, >= 1; the prompt's own when ``None``.

        Raises:
            ConfigError: If there is no such metric or list measure, or the limit is not a whole number >= 1.
        """
        if not isinstance(metric, str) or metric not in ANSWER_MEASURES:
            raise ConfigError(f"erag has no metric named {metric!r}; known: {', '.join(ANSWER_MEASURES)}")
        if over is not None and (not isinstance(over, str) or over not in LIST_MEASURES):
            raise ConfigError(f"erag has no list measure named {over!r}; known: {', '.join(LIST_MEASURES)}")
        self.metric, self.over = metric, over
        self.contexts = Contexts(prompt, max_new_tokens)

    @property
    def name(self) -> str:
        """``erag`` and any setting that is not the default one."""
        own = spelled(metric=None if self.metric == DEFAULT_METRIC else self.metric, over=self.over)
        return f"erag{own}{self.contexts.suffix}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The metric, the list measure and the prompt."""
        return {"metric": self.metric, "over": self.over, **self.contexts.parameters}

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for the answer from all passages, or from each of them."""
        if self.over is None:
            return {"grounded": self.contexts.grounded(query, passages)}
        return {f"grounded {number}": self.contexts.grounded(query, [each]) for number, each in enumerate(passages)}

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Compare each answer with its best gold answer."""
        golds = gold_answers(query)
        if self.over is None:
            answers = {"grounded": responses["grounded"]}
        else:
            answers = {f"grounded {number}": responses[f"grounded {number}"] for number in range(len(passages))}
        gains = [ANSWER_MEASURES[self.metric](answer.text, golds) for answer in answers.values()]
        facts = {**evidence(self.contexts.template, answers), "golds": golds}
        if self.over is None:
            return Value(gains[0], facts)
        return Value(LIST_MEASURES[self.over](gains), {**facts, "gains": gains})
