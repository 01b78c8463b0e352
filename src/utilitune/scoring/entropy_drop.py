"""Entropy drop: how much doubt the passages take away along the grounded answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.confidence import exact_entropies, mean
from utilitune.scoring.contexts import Contexts, Template, worded
from utilitune.scoring.evidence import evidence
from utilitune.scoring.information_gain import grounded_under_both
from utilitune.scoring.protocol import Request, Responses, Value


class EntropyDrop:
    """Mean entropy without minus with the passages, over the same tokens.

    Formula: ``(1/T) sum_t [H_t(y_g | q) - H_t(y_g | q, D)]`` over the greedy grounded answer ``y_g``.
    Source: sibling of GroGU (arXiv 2601.23129), with the same passes.
    Range: ``[-ln V, ln V]`` nats.
    Needs: no gold answers; exact entropies.
    Cost: as ``information-gain``, with which it shares every forward pass.
    No passages: exactly 0.
    """

    needs_answers = False

    def __init__(self, *, prompt: str | Template = "answer", max_new_tokens: int | None = None) -> None:
        """Load the prompt."""
        self.contexts = Contexts(prompt, max_new_tokens)

    @property
    def name(self) -> str:
        """``entropy-drop`` and any setting that is not the default one."""
        return f"entropy-drop{self.contexts.suffix}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The prompt."""
        return self.contexts.parameters

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for the grounded answer, and for its tokens after the bare question."""
        return grounded_under_both(self.contexts, query, passages)

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Average the entropy lost a token."""
        grounded = responses["grounded"]
        bare = responses["grounded_under_bare"] if worded(passages) else grounded
        pairs = zip(exact_entropies(bare), exact_entropies(grounded), strict=True)
        drops = [before - after for before, after in pairs]
        return Value(mean(drops), evidence(self.contexts.template, dict(responses)))
