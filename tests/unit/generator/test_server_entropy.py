"""Entropy of a distribution of which only the top is known: an interval that holds the truth."""

from itertools import pairwise
from math import exp, inf, log, nan

import pytest
import torch

from utilitune.generator.server_entropy import entropy_interval


def test_by_hand():
    # p = (1/2, 1/4), rest 1/4 over two tokens: all on one (1.5 ln 2), or 1/8 each (1.75 ln 2).
    lower, upper, mass = entropy_interval([log(0.5), log(0.25)], 4)
    assert (lower, upper, mass) == pytest.approx((1.5 * log(2), 1.75 * log(2), 0.75))


def test_no_idea_is_not_taken_for_confidence():
    """Twenty of 50 000 equally likely tokens: the sum over what is seen says 0.004 nats, the truth is 10.82."""
    seen = [-log(50_000)] * 20
    lower, upper, mass = entropy_interval(seen, 50_000)
    assert upper == pytest.approx(log(50_000))
    assert mass == pytest.approx(20 / 50_000)
    three = entropy_interval([log(0.5), log(0.3), log(0.2)], 50_000)
    assert three[:2] == pytest.approx((1.0297, 1.0297), abs=1e-4)
    # The intervals overlap or order rightly; they never say that the flat one is the surer for sure.
    assert not upper < three[0]
    assert lower < 0.01  # all of the rest might be one token: that is all that is known


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("top", [1, 5, 20, 400])
def test_holds_the_exact_entropy(seed, top):
    torch.manual_seed(seed)
    row = (torch.randn(400, dtype=torch.float64) * (seed % 5)).log_softmax(-1)
    exact = float(-(row.exp() * row).sum())
    lower, upper, mass = entropy_interval(row.topk(top).values.tolist(), 400)
    assert lower - 1e-9 <= exact <= upper + 1e-9
    assert mass == pytest.approx(float(row.topk(top).values.exp().sum()))
    if top == 400:
        assert lower == pytest.approx(upper, abs=1e-9)


def test_more_tokens_never_widen_the_interval():
    torch.manual_seed(0)
    row = torch.randn(400).double().log_softmax(-1).sort(descending=True).values.tolist()
    found = [entropy_interval(row[:top], 400) for top in range(1, 400)]
    widths = [upper - lower for lower, upper, _ in found]
    assert all(wide >= narrow - 1e-9 for wide, narrow in pairwise(widths))


def test_zeros_are_no_nan():
    plain = entropy_interval([log(0.5), log(0.5)], 10)
    for filler in (-inf, -9999.0):
        assert entropy_interval([log(0.5), log(0.5), filler, filler], 10) == pytest.approx(plain)
    assert plain == pytest.approx((log(2), log(2), 1.0))


def test_rounding_above_one_is_cut_and_no_probabilities_are_refused():
    assert entropy_interval([log(0.6), log(0.405)], 10)[2] == 1.0
    for wrong in ([log(0.9), log(0.9)], [nan], [0.5]):
        with pytest.raises(ValueError, match="log-probabilities"):
            entropy_interval(wrong, 10)
    assert exp(entropy_interval([0.0], 10)[1]) == 1.0
