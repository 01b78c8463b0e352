"""GroGU: how much surer the generator gets of its own answer when it sees the passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.errors import ConfigError
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.confidence import CONFIDENCES
from utilitune.scoring.contexts import Contexts, Template
from utilitune.scoring.evidence import evidence
from utilitune.scoring.protocol import Request, Responses, Value


class Grogu:
    """Confidence of the grounded answer minus confidence of the bare answer.

    Formula: ``γ(y_g | q, D) - γ(y_u | q)``, with ``y_g`` and ``y_u`` the generator's own greedy answers with
    and without the passages ``D``. ``γ`` is one of ``CONFIDENCES`` (higher = surer).
    Source: GroGU (arXiv 2601.23129).
    Range: ``[-ln V, ln V]`` for entropies over a vocabulary of V; unbounded for log-probability and
    perplexity.
    Needs: no gold answers; exact entropies for the entropy forms.
    Cost: one prefill and greedy decoding a passage set, and one more a query.
    No passages: exactly 0.
    """

    needs_answers = False

    def __init__(
        self,
        gamma: str = "mean-entropy",
        *,
        prompt: str | Template = "answer",
        max_new_tokens: int | None = None,
    ) -> None:
        """Pick γ by name.

        Args:
            gamma: A name in ``CONFIDENCES``.
            prompt: Packaged prompt, prompt file, or a loaded template.
            max_new_tokens: Length limit of an answer in tokens, >= 1; the prompt's own when ``None``.

        Raises:
            ConfigError: If there is no such γ, or the limit is not a whole number >= 1.
        """
        if gamma not in CONFIDENCES:
            raise ConfigError(f"grogu has no γ named {gamma!r}; known: {', '.join(CONFIDENCES)}")
        self.gamma = gamma
        self.contexts = Contexts(prompt, max_new_tokens)

    @property
    def name(self) -> str:
        """``grogu:<γ>`` and any setting that is not the default one."""
        return f"grogu:{self.gamma}{self.contexts.suffix}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """γ and the prompt."""
        return {"gamma": self.gamma, **self.contexts.parameters}

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for both greedy answers (one and the same when there are no passages)."""
        return {"grounded": self.contexts.grounded(query, passages), "bare": self.contexts.bare(query)}

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Subtract the two confidences."""
        gamma = CONFIDENCES[self.gamma]
        grounded, bare = responses["grounded"], responses["bare"]
        sure, unsure = gamma(grounded), gamma(bare)
        facts = evidence(self.contexts.template, {"grounded": grounded, "bare": bare})
        return Value(sure - unsure, {**facts, "confidence": {"grounded": sure, "bare": unsure}})
