"""GroGU over key tokens: confidence where the answer carries information."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Continuation
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.confidence import exact_entropies, mean
from utilitune.scoring.contexts import Contexts, Template, spelled, worded
from utilitune.scoring.evidence import evidence
from utilitune.scoring.key_tokens import NEEDS_OTHER_CONTEXT, SELECTORS, Mask
from utilitune.scoring.protocol import Request, Rescore, Responses, Value

DEFAULT_TAU = 1.0


class KeyEntropy:
    """Confidence at the grounded answer's key tokens minus confidence at the bare answer's.

    Formula: ``γ(y_g | q, D) - γ(y_u | q)`` as in ``Grogu``, with ``γ(y) = -(1/|K|) sum_{t in K} H_t`` over
    key tokens K.
    Source: GroGU (arXiv 2601.23129), which does not publish its rule for K; the selectors are reconstructions.
    Selectors of K: ``delta-logprob`` (default): tokens whose log-probability moves by at least ``tau`` nats
    when the same tokens are read under the other context; ``question-overlap``: tokens of words that the
    question does not hold; ``all``: every token, which is ``grogu:mean-entropy``. An empty K means all
    tokens.
    Range: ``[-ln V, ln V]``.
    Needs: no gold answers; exact entropies.
    Cost: as ``grogu:mean-entropy``, and for ``delta-logprob`` each answer scored once under the other
    context.
    No passages: exactly 0.
    """

    needs_answers = False

    def __init__(
        self,
        *,
        selector: str = "delta-logprob",
        tau: float | None = None,
        prompt: str | Template = "answer",
        max_new_tokens: int | None = None,
    ) -> None:
        """Pick the selector.

        Args:
            selector: A name in ``SELECTORS``.
            tau: Threshold of ``delta-logprob`` in nats, >= 0; 1.0 when ``None``.
            prompt: Packaged prompt, prompt file, or a loaded template.
            max_new_tokens: Length limit of an answer in tokens, >= 1; the prompt's own when ``None``.

        Raises:
            ConfigError: If there is no such selector, or a number is out of its range.
        """
        if selector not in SELECTORS:
            raise ConfigError(f"no key-token selector named {selector!r}; known: {', '.join(SELECTORS)}")
        if tau is not None and selector != "delta-logprob":
            raise ConfigError(f"tau={tau} has no meaning for selector {selector!r}; leave it out")
        if tau is not None and (isinstance(tau, bool) or not isinstance(tau, int | float) or not tau >= 0):
            raise ConfigError(f"tau is {tau!r}; expected a number of nats, at least 0")
        self.selector = selector
        self.tau = DEFAULT_TAU if tau is None else float(tau)
        self.contexts = Contexts(prompt, max_new_tokens)

    @property
    def name(self) -> str:
        """``grogu:key-entropy`` and any setting that is not the default one."""
        own = spelled(
            selector=None if self.selector == "delta-logprob" else self.selector,
            tau=None if self.tau == DEFAULT_TAU else self.tau,
        )
        return f"grogu:key-entropy{own}{self.contexts.suffix}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """γ, selector, its threshold, and the prompt."""
        own = {"gamma": "key-entropy", "selector": self.selector}
        threshold = {"tau": self.tau} if self.selector == "delta-logprob" else {}
        return {**own, **threshold, **self.contexts.parameters}

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for both greedy answers, and for each under the other context where the selector reads it."""
        grounded, bare = self.contexts.grounded(query, passages), self.contexts.bare(query)
        answers: dict[str, Request] = {"grounded": grounded, "bare": bare}
        if self.selector in NEEDS_OTHER_CONTEXT and worded(passages):
            answers["grounded_under_bare"] = Rescore(bare.prompt, grounded)
            answers["bare_under_grounded"] = Rescore(grounded.prompt, bare)
        return answers

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Subtract the mean key entropies."""
        grounded, bare = responses["grounded"], responses["bare"]
        # Without passages, or for a selector that does not look there, the other context is the own one.
        both = "grounded_under_bare" in responses
        select = SELECTORS[self.selector]
        grounded_key = select(query, grounded, responses["grounded_under_bare"] if both else grounded, self.tau)
        bare_key = select(query, bare, responses["bare_under_grounded"] if both else bare, self.tau)
        sure, unsure = _key_entropy(grounded, grounded_key), _key_entropy(bare, bare_key)
        facts = evidence(self.contexts.template, dict(responses))
        facts["confidence"] = {"grounded": sure, "bare": unsure}
        facts["key"] = {"grounded": list(grounded_key), "bare": list(bare_key)}
        return Value(sure - unsure, facts)


def _key_entropy(answer: Continuation, key: Mask) -> float:
    return -mean([entropy for entropy, kept in zip(exact_entropies(answer), key, strict=True) if kept])
