"""Whether an answer entails a gold answer: judges by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from utilitune.errors import ConfigError
from utilitune.scoring.answer_match import ANSWER_MEASURES

NLI = "nli:"


class Judge(Protocol):
    """Says how far answers and gold answers entail each other. Deterministic; equal parameters mean equal numbers."""

    @property
    def name(self) -> str:
        """Name as ``make_judge`` takes it."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Everything of the judge that can change a number (JSON-ready)."""
        ...

    def entailed(self, question: str, answers: Sequence[str], golds: Sequence[str]) -> list[list[float]]:
        """Judge every answer against every gold answer.

        Args:
            question: The question that all of them answer.
            answers: Answers; a blank one entails nothing.
            golds: Gold answers, none blank.

        Returns:
            One list a gold answer with one number in [0, 1] an answer.

        Raises:
            ValueError: If a text cannot be judged.
        """
        ...


class StringMatch:
    """Matches normalised strings in place of a model: ``contains``, ``EM`` or ``F1``."""

    def __init__(self, measure: str) -> None:
        """Pick the measure, a name in ``ANSWER_MEASURES``."""
        self.name = measure

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The judge by its honest name."""
        return {"judge": f"string-match:{self.name}"}

    def entailed(self, question: str, answers: Sequence[str], golds: Sequence[str]) -> list[list[float]]:
        """Match every answer with every gold answer; the question is not read."""
        match = ANSWER_MEASURES[self.name]
        return [[match(answer, gold) for answer in answers] for gold in golds]


def make_judge(spec: object, revision: str | None = None) -> Judge:
    """Make a judge.

    Args:
        spec: A name in ``ANSWER_MEASURES``, or ``nli:MODEL`` with a model folder, ``packaged:NAME`` or a Hub id.
        revision: Revision of a model on the Hub; ``None`` for its newest.

    Returns:
        The judge; a model's weights are loaded when the first answers are judged.

    Raises:
        ConfigError: For an unknown name, a model that cannot judge entailment, or a revision of what has none.
    """
    if isinstance(spec, str) and spec.startswith(NLI):
        from utilitune.scoring.nli_judge import NliJudge

        return NliJudge(spec.removeprefix(NLI), revision)
    if not isinstance(spec, str) or spec not in ANSWER_MEASURES:
        raise ConfigError(f"no judge named {spec!r}; known: {', '.join(ANSWER_MEASURES)}, {NLI}MODEL")
    if revision is not None:
        raise ConfigError(f"judge {spec!r} matches strings and has no revision; leave judge_revision out")
    return StringMatch(spec)
