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
from utilitune.scoring.protocol import Request, Responses, Value

DEFAULT_METRIC = "F1"


class Erag:
    """Answer metric of the generator's greedy answer from the passages alone.

    Formula: ``max_a metric(y_g, a)`` over the gold answers ``a``, with ``y_g`` the greedy answer to ``q`` from ``D``;
    metric is ``EM``, ``F1`` (default: the finest) or ``contains``, on normalised strings.
    Source: eRAG (arXiv 2404.13781).
    Range: ``[0, 1]``; ``EM`` and ``contains`` are 0 or 1, so expect many ties.
    Needs: gold answers; no log-probabilities, no entropies.
    Cost: one prefill and greedy decoding a passage set, shared with ``information-gain`` and ``grogu``.
    No passages: the metric of the answer to the bare question.
    """

    needs_answers = True

    def __init__(
        self, *, metric: str = DEFAULT_METRIC, prompt: str | Template = "answer", max_new_tokens: int | None = None
    ) -> None:
        """Pick the metric.

        Args:
            metric: A name in ``ANSWER_MEASURES``.
            prompt: Packaged prompt, prompt file, or a loaded template.
            max_new_tokens: Length limit of an answer in tokens, >= 1; the prompt's own when ``None``.

        Raises:
            ConfigError: If there is no such metric, or the limit is not a whole number >= 1.
        """
        self.metric = known_measure("erag", "metric", metric)
        self.contexts = Contexts(prompt, max_new_tokens)

    @property
    def name(self) -> str:
        """``erag`` and any setting that is not the default one."""
        return f"erag{spelled(metric=None if self.metric == DEFAULT_METRIC else self.metric)}{self.contexts.suffix}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The metric and the prompt."""
        return {"metric": self.metric, **self.contexts.parameters}

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for the grounded answer."""
        return {"grounded": self.contexts.grounded(query, passages)}

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Compare the answer with the best gold answer."""
        golds, answer = gold_answers(query), responses["grounded"]
        number = ANSWER_MEASURES[self.metric](answer.text, golds)
        return Value(number, {**evidence(self.contexts.template, {"grounded": answer}), "golds": golds})


def known_measure(utility: str, parameter: str, name: object) -> str:
    """Return ``name`` if it is a measure of answers.

    Args:
        utility: Whose parameter it is, for the message.
        parameter: Name of the parameter.
        name: What was given.

    Returns:
        The name.

    Raises:
        ConfigError: If there is no such measure.
    """
    if not isinstance(name, str) or name not in ANSWER_MEASURES:
        raise ConfigError(f"{utility} has no {parameter} named {name!r}; known: {', '.join(ANSWER_MEASURES)}")
    return name
