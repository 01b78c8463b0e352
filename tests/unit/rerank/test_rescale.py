"""Rescaling rules, by hand."""

from __future__ import annotations

import math

import pytest

from utilitune.errors import ConfigError
from utilitune.rerank.rescale import RESCALES, rescale

UTILITIES = (-2.0, 0.3, 5.0, 0.3)


def test_min_max_by_hand():
    assert rescale((-2.0, 1.5, 5.0), "min-max") == pytest.approx((0.0, 0.5, 1.0))


def test_z_score_by_hand():
    # mean 2, population variance (4 + 0 + 4) / 3
    sigma = math.sqrt(8 / 3)
    assert rescale((0, 2, 4), "z-score") == pytest.approx((-2 / sigma, 0.0, 2 / sigma))


def test_rank_shares_the_rank_of_ties():
    # ranks from the bottom: -2 -> 0, the two 0.3 -> (1 + 2) / 2, 5 -> 3; over 3
    assert rescale(UTILITIES, "rank") == pytest.approx((0.0, 0.5, 1.0, 0.5))


def test_softmax_by_hand_and_without_overflow():
    assert rescale((0.0, math.log(3)), "softmax") == pytest.approx((0.25, 0.75))
    assert rescale((0.0, math.log(9)), "softmax", 2.0) == pytest.approx((0.25, 0.75))
    assert rescale((5000.0, 0.0), "softmax") == pytest.approx((1.0, 0.0))


@pytest.mark.parametrize("rule", sorted(RESCALES))
def test_every_rule_keeps_the_order_within_its_range(rule):
    targets = rescale(UTILITIES, rule)
    assert targets[2] > targets[1] == targets[3] > targets[0]
    assert all(RESCALES[rule].low <= target <= RESCALES[rule].high for target in targets)


@pytest.mark.parametrize("rule", ["min-max", "z-score", "rank"])
def test_rules_do_not_depend_on_scale_and_origin(rule):
    shifted = [7 * value - 100 for value in UTILITIES]
    assert rescale(shifted, rule) == pytest.approx(rescale(UTILITIES, rule))


@pytest.mark.parametrize("rule", sorted(RESCALES))
def test_no_variance_and_no_candidates_give_finite_numbers(rule):
    assert rescale((), rule) == ()
    targets = rescale((0.5, 0.5), rule)
    assert targets[0] == targets[1] and math.isfinite(targets[0])


def test_unknown_rule_lists_the_known_ones():
    with pytest.raises(ConfigError, match="min-max, z-score"):
        rescale((1.0,), "minmax")
    with pytest.raises(ConfigError, match="> 0"):
        rescale((1.0, 2.0), "softmax", 0.0)
