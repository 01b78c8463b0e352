"""Contrastive perplexity: how well the gold answer fits what the passages add to the generator's view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.errors import ConfigError
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.confidence import mean_logprob
from utilitune.scoring.contexts import Template, spelled
from utilitune.scoring.gold_answers import GoldAnswers
from utilitune.scoring.protocol import Contrast, Request, Responses, Value

DEFAULT_ALPHA = 0.5


class ContrastivePpl:
    """Negative log-perplexity of the gold answer when the bare question's logits count against the passages'.

    Formula: ``max_a (1/T) sum_t ln softmax((1 + alpha) z_t(q, D) - alpha z_t(q))[a_t]`` over the gold answers ``a``,
    with logits ``z_t`` after ``a_<t`` in both contexts; exact, over the full vocabulary.
    Source: GainRAG (arXiv 2505.18710), alpha = 0.5.
    Range: ``(-inf, 0]`` nats a token; ``alpha=0`` is ``answer-likelihood``.
    Needs: gold answers; a generator with full logits (transformers); no entropies.
    Cost: one prefill a passage set and one a query and batch, shared with no other utility.
    No passages: ``answer-likelihood`` of the bare question.
    """

    needs_answers = True

    def __init__(self, *, alpha: float = DEFAULT_ALPHA, prompt: str | Template = "answer") -> None:
        """Set the weight of the bare question.

        Args:
            alpha: Weight, >= 0.
            prompt: Packaged prompt, prompt file, or a loaded template.

        Raises:
            ConfigError: If the weight is not a finite number >= 0.
        """
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha < float("inf"):
            raise ConfigError(f"alpha is {alpha!r}; expected a finite number, at least 0")
        self.alpha = float(alpha)
        self.golds = GoldAnswers(prompt)

    @property
    def name(self) -> str:
        """``contrastive-ppl`` and any setting that is not the default one."""
        return f"contrastive-ppl{spelled(alpha=None if self.alpha == DEFAULT_ALPHA else self.alpha)}{self.golds.suffix}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The weight and the prompt."""
        return {"alpha": self.alpha, **self.golds.parameters}

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for the gold answers under the contrast of both prompts."""
        grounded, bare = self.golds.prompt(query, passages), self.golds.prompt(query, ())
        return {f"contrast:{text}": Contrast(grounded, bare, text, self.alpha) for text in self.golds.spellings(query)}

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Take the best gold answer."""
        best = self.golds.likeliest("contrast", query, responses, mean_logprob)
        number = mean_logprob(responses[f"contrast:{best}"])
        return Value(number, self.golds.evidence(["contrast"], query, responses, best))
