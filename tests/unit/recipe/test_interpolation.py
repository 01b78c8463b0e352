"""The first stage's score added to the reranker's: arithmetic by hand, and how the weight is found."""

import math

import pytest

from utilitune.recipe.stages.interpolation import WEIGHTS, choose_weight, mixed
from utilitune.records import Run

FIRST = Run({"q": [("a", 30.0), ("b", 20.0), ("c", 10.0)]})
RERANKED = Run({"q": [("c", 0.3), ("b", 0.2), ("a", 0.1)]})
STEP = math.sqrt(1.5)  # z-scores of three equally spaced numbers: -STEP, 0, STEP


@pytest.mark.parametrize(("weight", "top"), [(0.0, "a"), (0.25, "a"), (0.75, "c"), (1.0, "c")])
def test_the_sum_is_of_z_scores(weight, top):
    made = dict(mixed(FIRST, RERANKED, weight)["q"])
    assert made == pytest.approx({"a": (1 - 2 * weight) * STEP, "b": 0.0, "c": (2 * weight - 1) * STEP})
    assert mixed(FIRST, RERANKED, weight)["q"][0][0] == top


def test_scales_and_shifts_of_either_side_play_no_part():
    scaled = Run({"q": [(pid, 7 * score - 100) for pid, score in RERANKED["q"]]})
    assert dict(mixed(FIRST, scaled, 0.3)["q"]) == pytest.approx(dict(mixed(FIRST, RERANKED, 0.3)["q"]))


def test_equal_scores_and_numbers_that_are_none_do_no_harm():
    constant = Run({"q": [("a", 1.0), ("b", 1.0), ("c", 1.0)]})
    assert [pid for pid, _ in mixed(FIRST, constant, 0.9)["q"]] == ["a", "b", "c"]
    broken = Run({"q": [("a", math.nan), ("b", 2.0), ("c", 1.0)]})
    assert dict(mixed(FIRST, broken, 1.0)["q"]) == {"a": -1.0, "b": 1.0, "c": -1.0}
    assert all(score == 0.0 for _, score in mixed(Run(), Run({"q": [("a", math.inf)]}), 0.5)["q"])


def test_the_weight_follows_whoever_orders_by_utility():
    right, wrong = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}, {"q": {"a": 1.0, "b": 2.0, "c": 3.0}}
    weight, means = choose_weight(FIRST, RERANKED, right)
    assert weight == 0.0 and means[0.0] == 1.0 and means[1.0] < 1.0
    weight, means = choose_weight(FIRST, RERANKED, wrong)
    # Every weight above one half gives the best order; the one nearest to the first stage is taken.
    assert weight == 0.55 and means[weight] == means[1.0] == 1.0
    assert [*means] == [*WEIGHTS]


def test_both_together_can_be_better_than_either():
    first = Run({"q": [("a", 3.0), ("b", 2.9), ("c", 0.0)], "r": [("a", 3.0), ("b", 0.1), ("c", 0.0)]})
    other = Run({"q": [("b", 3.0), ("c", 2.9), ("a", 2.0)], "r": [("c", 3.0), ("a", 2.9), ("b", 0.0)]})
    worth = {"q": {"a": 0.0, "b": 1.0, "c": 0.0}, "r": {"a": 1.0, "b": 0.0, "c": 0.0}}
    weight, means = choose_weight(first, other, worth)
    assert 0 < weight < 1 and means[weight] == 1.0
    assert means[0.0] < 1.0 and means[1.0] < 1.0


def test_passages_without_a_utility_order_and_do_not_count():
    reranked = Run({"q": [("x", 9.0), *RERANKED["q"]]})
    assert choose_weight(FIRST, reranked, {"q": {"a": 1.0, "c": 0.0}})[1][1.0] == pytest.approx(1 / math.log2(3))


@pytest.mark.parametrize("worth", [{}, {"q": {"a": 1.0}}, {"q": {"a": 1.0, "b": 1.0}}, {"q": {"x": 1.0, "y": 0.0}}])
def test_without_a_question_to_choose_by_the_first_stage_stays(worth):
    assert choose_weight(FIRST, RERANKED, worth) == (0.0, {})
