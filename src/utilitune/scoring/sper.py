"""Delta-SePer: how much belief in the gold answer the passages add, over sampled answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, fsum, inf
from typing import Any

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Continuation
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.confidence import mean_logprob
from utilitune.scoring.contexts import Contexts, Template, spelled
from utilitune.scoring.entailment import make_judge
from utilitune.scoring.gold_answers import gold_answers
from utilitune.scoring.protocol import Request, Responses, Sample, Value

CONTEXTS = ("grounded", "bare")
DEFAULT_JUDGE = "contains"


class Sper:
    """Belief in the gold answer over sampled answers, with minus without the passages.

    Formula: ``B(q, D) - B(q)``, with ``B = max_a sum_r w_r E(r, a)`` over the gold answers ``a``, ``w_r`` proportional
    to ``exp((1/T_r) sum_t ln p(r_t))`` and summing to 1 over the n sampled answers ``r``; each weight stays with its
    answer for every ``a``.
    Judges of E, whether an answer entails a gold answer or is entailed by it: ``nli:MODEL``, the paper's, probability
    of entailment by a natural-language-inference model, the surer direction; without a model a match of normalised
    strings, named so in the parameters: ``contains`` (default: the answer holds the gold answer), ``EM``, ``F1``.
    Source: SePer (arXiv 2503.01478).
    Range: ``[-1, 1]``.
    Needs: gold answers; no entropies.
    Cost: one prefill and n sampled answers a passage set, and the same once a query; with an NLI judge also two of its
    passes a pair of distinct answer and gold answer, at each labelling (verdicts are not stored).
    No passages: exactly 0.
    """

    needs_answers = True

    def __init__(
        self,
        *,
        n: int = 10,
        temperature: float = 1.0,
        seed: int = 0,
        judge: str = DEFAULT_JUDGE,
        judge_revision: str | None = None,
        prompt: str | Template = "answer",
        max_new_tokens: int | None = None,
    ) -> None:
        """Say how to sample and how to judge.

        Args:
            n: Answers a context, >= 1.
            temperature: Of the sampler, > 0; weights are of temperature 1 whatever this is.
            seed: Seed of the sampler.
            judge: ``contains``, ``EM``, ``F1`` or ``nli:MODEL``; see ``make_judge``.
            judge_revision: Revision of an NLI model on the Hub; its newest when ``None``.
            prompt: Packaged prompt, prompt file, or a loaded template.
            max_new_tokens: Length limit of an answer in tokens, >= 1; the prompt's own when ``None``.

        Raises:
            ConfigError: If there is no such judge, its model cannot judge, or a number is out of its range.
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ConfigError(f"n is {n!r}; expected a whole number of sampled answers, at least 1")
        number = not isinstance(temperature, bool) and isinstance(temperature, int | float)
        if not number or not 0 < temperature < float("inf"):
            raise ConfigError(f"temperature is {temperature!r}; expected a number above 0")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ConfigError(f"seed is {seed!r}; expected a whole number")
        self.n, self.temperature, self.seed = n, float(temperature), seed
        self.judge = make_judge(judge, judge_revision)
        self._judge_revision = judge_revision
        self.contexts = Contexts(prompt, max_new_tokens)

    @property
    def name(self) -> str:
        """``sper`` and any setting that is not the default one."""
        own = spelled(
            n=None if self.n == 10 else self.n,
            temperature=None if self.temperature == 1 else self.temperature,
            seed=None if self.seed == 0 else self.seed,
            judge=None if self.judge.name == DEFAULT_JUDGE else self.judge.name,
            judge_revision=self._judge_revision,
        )
        return f"sper{own}{self.contexts.suffix}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Sampler, judge and prompt."""
        sampler = {"n": self.n, "temperature": self.temperature, "seed": self.seed}
        return {**sampler, **self.judge.parameters, **self.contexts.parameters}

    def requests(self, query: Query, passages: Sequence[Passage]) -> Mapping[str, Request]:
        """Ask for sampled answers with the passages and to the bare question."""
        return {
            **self._sample(query, passages).draws("grounded"),
            **self._sample(query, ()).draws("bare"),
        }

    def _sample(self, query: Query, passages: Sequence[Passage]) -> Sample:
        greedy = self.contexts.grounded(query, passages)
        return Sample(greedy.prompt, self.n, self.temperature, self.seed, greedy.max_new_tokens, greedy.stop)

    def value(self, query: Query, passages: Sequence[Passage], responses: Responses) -> Value:
        """Subtract the two beliefs."""
        golds, template = gold_answers(query), self.contexts.template
        facts: dict[str, Any] = {"prompt": template.name, "prompt_hash": template.hash, "golds": golds}
        beliefs: dict[str, float] = {}
        for context in CONTEXTS:
            answers = [responses[f"{context}-{number}"] for number in range(self.n)]
            weights = likelihood_weights(answers)
            entailed = self.judge.entailed(query.text, [answer.text for answer in answers], golds)
            best, beliefs[context] = belief(weights, entailed)
            facts[context] = [
                {"text": answer.text, "weight": weight, "entails": judged, "logprobs": list(answer.logprobs)}
                for answer, weight, judged in zip(answers, weights, entailed[best], strict=True)
            ]
            facts["gold"] = {**facts.get("gold", {}), context: golds[best]}
        facts["truncated"] = any(each.truncated for each in responses.values())
        return Value(beliefs["grounded"] - beliefs["bare"], {**facts, "belief": beliefs})


def likelihood_weights(answers: Sequence[Continuation]) -> list[float]:
    """Return weights proportional to ``exp(mean token log-probability)`` that sum to 1.

    Args:
        answers: Sampled answers, at least one, each with at least one token.

    Returns:
        One weight an answer, in order.

    Raises:
        ValueError: If no answer has a probability above 0.
    """
    means = [mean_logprob(answer) for answer in answers]
    top = max(means)
    if top == -inf:
        raise ValueError("every sampled answer has probability 0: there are no weights")
    raw = [exp(each - top) for each in means]
    total = fsum(raw)
    return [each / total for each in raw]


def belief(weights: Sequence[float], entailed: Sequence[Sequence[float]]) -> tuple[int, float]:
    """Return the weight of the answers that entail a gold answer, best over the golds.

    Args:
        weights: One weight an answer, summing to 1.
        entailed: One list a gold answer, at least one; one verdict in [0, 1] an answer.

    Returns:
        Number of the best gold answer (the first of equals), and ``max_a sum_r w_r E(r, a)`` in [0, 1].
    """
    beliefs = [fsum(weight * judged for weight, judged in zip(weights, each, strict=True)) for each in entailed]
    best = max(range(len(beliefs)), key=beliefs.__getitem__)
    return best, min(1.0, beliefs[best])
