from math import exp, log

import pytest

from utilitune.generator.protocol import Continuation
from utilitune.scoring.confidence import CONFIDENCES


def answer(logprobs, entropies):
    return Continuation("x", ("t",) * len(logprobs), (), tuple(logprobs), entropies)


# Two tokens: p = 1/2 with entropy ln 2, p = 1/4 with entropy ln 4.
TWO = answer([-log(2), -log(4)], (log(2), log(4)))


@pytest.mark.parametrize(
    ("gamma", "expected"),
    [
        ("mean-entropy", -1.5 * log(2)),
        ("max-entropy", -2 * log(2)),
        ("first-token-entropy", -log(2)),
        ("mean-logprob", -1.5 * log(2)),
        ("perplexity", -(2**1.5)),
    ],
)
def test_by_hand(gamma, expected):
    assert CONFIDENCES[gamma](TWO) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("gamma", CONFIDENCES)
def test_uniform_gives_ln_of_the_vocabulary(gamma):
    size = 50_000
    uniform = answer([-log(size)] * 7, (log(size),) * 7)
    expected = -size if gamma == "perplexity" else -log(size)
    assert CONFIDENCES[gamma](uniform) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("gamma", CONFIDENCES)
def test_a_sure_answer_is_the_upper_end(gamma):
    assert CONFIDENCES[gamma](answer([0.0, 0.0], (0.0, 0.0))) == (-1.0 if gamma == "perplexity" else 0.0)


def test_missing_entropies_are_an_error_and_never_zero():
    without = answer([-1.0], None)
    for gamma in ("mean-entropy", "max-entropy", "first-token-entropy"):
        with pytest.raises(ValueError, match="no exact entropies"):
            CONFIDENCES[gamma](without)
    assert CONFIDENCES["mean-logprob"](without) == -1.0
    assert CONFIDENCES["perplexity"](without) == -exp(1.0)


def test_no_token_is_an_error():
    with pytest.raises(ValueError, match="without tokens"):
        CONFIDENCES["mean-logprob"](answer([], ()))


def test_perplexity_beyond_floats_is_infinite():
    assert CONFIDENCES["perplexity"](answer([-800.0], (1.0,))) == float("-inf")
