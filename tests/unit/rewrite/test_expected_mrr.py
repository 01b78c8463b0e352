"""The reward that reads a whole ranking: by hand, as a plain double loop, and through ``reward_candidates``."""

from __future__ import annotations

import math
import random

import pytest

from utilitune.rewrite.expected_mrr import DEPTH, belief, consensus, expected_mrr

EVEN = dict.fromkeys("abc", 0.5)


def test_consensus_by_hand():
    assert consensus([["a", "b"], ["b"], []]) == {"a": 1.0, "b": 1.5}
    deep = [f"p{number}" for number in range(DEPTH + 2)]
    assert len(consensus([deep])) == DEPTH
    assert consensus([]) == {}


def test_belief_by_hand():
    # mean 1, deviation 1: e^1 and e^-1, times the weights.
    found = belief({"a": 2.0, "b": 0.0}, {"a": 1.0, "b": 3.0})
    assert found["a"] == pytest.approx(math.e / (math.e + 3 / math.e))
    assert math.fsum(found.values()) == pytest.approx(1.0)


def test_belief_has_no_unit():
    values = {"a": 0.3, "b": -0.1, "c": 0.25}
    assert belief({name: 1000 * value + 7 for name, value in values.items()}, EVEN) == pytest.approx(
        belief(values, EVEN)
    )
    assert belief(values, {name: 9 * weight for name, weight in EVEN.items()}) == pytest.approx(belief(values, EVEN))


def test_where_no_utility_differs_the_weights_decide():
    assert belief({"a": 0.5, "b": 0.5}, {"a": 3.0, "b": 1.0}) == {"a": 0.75, "b": 0.25}
    assert belief({"a": -3.0}, EVEN) == {"a": 1.0}
    assert belief({}, EVEN) == {}


def test_a_passage_that_no_ranking_holds_is_left_out():
    assert belief({"a": 0.1, "x": 9.0}, EVEN) == {"a": 1.0}
    assert belief({"x": 9.0}, EVEN) == {}


def test_rounding_errors_of_equal_values_are_no_belief():
    assert belief({"a": 0.1 + 0.2, "b": 0.3, "c": 0.3}, EVEN) == pytest.approx(dict.fromkeys("abc", 1 / 3))
    assert belief({"a": 1e-9, "b": 2e-9}, EVEN)["b"] > 0.8, "small is not equal"


def test_expected_mrr_by_hand():
    beliefs = {"a": 0.75, "b": 0.25}
    assert expected_mrr(["a", "b"], beliefs) == pytest.approx(0.75 + 0.125)
    assert expected_mrr(["x", "b", "a"], beliefs) == pytest.approx(0.125 + 0.25)
    assert expected_mrr([], beliefs) == 0.0


def test_one_certain_passage_is_plain_reciprocal_rank():
    for rank in range(1, DEPTH + 3):
        ranking = [f"x{number}" for number in range(1, rank)] + ["gold"]
        assert expected_mrr(ranking, {"gold": 1.0}) == pytest.approx(1 / rank if rank <= DEPTH else 0.0)


def test_equal_evidence_is_equal_to_the_last_bit():
    """Rankings with x and y swapped, and the same utility for all: a difference would be a pair made of rounding."""
    swap = {"x": "y", "y": "x"}
    for seed in range(100):
        draw = random.Random(seed)
        rankings = [draw.sample("xyabcdefgh", 10) for _ in range(3)]
        mirrored = [[swap.get(name, name) for name in ranking] for ranking in rankings]
        weights = consensus([*rankings, *mirrored])
        assert weights == consensus([*mirrored[::-1], *rankings])
        beliefs = belief(dict.fromkeys(weights, 0.5), weights)
        for one, other in zip(rankings, mirrored, strict=True):
            assert expected_mrr(one, beliefs) == expected_mrr(other, beliefs)
