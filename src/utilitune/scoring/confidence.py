"""γ: how sure the generator is of an answer, as one number. Higher = surer.

Notation: T tokens, H_t the exact entropy (nats) over the full vocabulary before token t, ln p_t the
log-probability of token t; all at temperature 1. Source: arXiv 2601.23129 (GroGU).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, fsum, inf

from utilitune.generator.protocol import Continuation

Confidence = Callable[[Continuation], float]


def exact_entropies(answer: Continuation) -> tuple[float, ...]:
    """Return the exact entropies.

    Args:
        answer: A scored answer.

    Returns:
        One number a token, in nats.

    Raises:
        ValueError: If the backend gave none: a missing number is never 0, and bounds do not rank passages.
    """
    if answer.entropies is None:
        raise ValueError(
            "this backend gives no exact entropies; use one that does (transformers), or a utility made of "
            "log-probabilities alone (information-gain, grogu:mean-logprob)"
        )
    return answer.entropies


def mean(numbers: Sequence[float]) -> float:
    """Return the mean; ``fsum`` makes it independent of the order. At least one number is needed."""
    if not numbers:
        raise ValueError("an answer without tokens has no confidence")
    return fsum(numbers) / len(numbers)


def mean_entropy(answer: Continuation) -> float:
    """``-(1/T) sum_t H_t``, in ``[-ln V, 0]``."""
    return -mean(exact_entropies(answer))


def max_entropy(answer: Continuation) -> float:
    """``-max_t H_t``, in ``[-ln V, 0]``: the least sure token decides."""
    return -max(exact_entropies(answer))


def first_token_entropy(answer: Continuation) -> float:
    """``-H_1``, in ``[-ln V, 0]``."""
    return -exact_entropies(answer)[0]


def mean_logprob(answer: Continuation) -> float:
    """``(1/T) sum_t ln p_t``, in ``(-inf, 0]``; needs no entropies."""
    return mean(answer.logprobs)


def perplexity(answer: Continuation) -> float:
    """``-exp(-mean-logprob)``, in ``(-inf, -1]``; needs no entropies."""
    try:
        return -exp(-mean(answer.logprobs))
    except OverflowError:  # below -709 nats a token: not a number to train on, the row becomes invalid
        return -inf


CONFIDENCES: dict[str, Confidence] = {
    "mean-entropy": mean_entropy,
    "max-entropy": max_entropy,
    "first-token-entropy": first_token_entropy,
    "mean-logprob": mean_logprob,
    "perplexity": perplexity,
}
"""γ by name; ``key-entropy`` needs a second context and lives in ``key_entropy``."""
