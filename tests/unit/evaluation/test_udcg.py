"""UDCG against the reference's own example, and its rules."""

import math
import random

import pytest

from utilitune.evaluation import udcg, udcg_at_k

NO_RES = [2.086162567138672e-06, 1.341104507446289e-05, 0.1318359375, 0.1812744140625, 0.02081298828125]
USEFUL = [1 - p for p in NO_RES]
LABELS = [1, 1, 0, 0, 0]


@pytest.mark.parametrize(("gamma", "golden"), [(1 / 3, 0.5553370029055983), (0.333, 0.5553808928170055)])
def test_golden(gamma, golden):
    assert udcg(USEFUL, LABELS, gamma) == pytest.approx(golden, abs=1e-12, rel=0)
    assert udcg(USEFUL, [True, True, False, False, False], gamma) == udcg(USEFUL, [1, 1, -1, -1, -1], gamma)


def test_hand_arithmetic():
    assert udcg([0.9, 0.6], [1, 0], raw=True) == pytest.approx((0.9 - 0.2) / 2)
    assert udcg([0.9, 0.6], [1, 0]) == pytest.approx(1 / (1 + math.exp(-0.35)))


def test_empty_list_is_zero():
    assert udcg([], []) == 0.0
    assert udcg([], [], raw=True) == 0.0


@pytest.mark.parametrize("gap", [None, float("nan")])
def test_missing_values_leave_the_sum_and_count_in_k(gap):
    assert udcg([0.8, gap, 0.3, 0.6], [1, 1, gap, 0], raw=True) == pytest.approx((0.8 - 0.2) / 4)
    assert udcg([gap], [1]) == 0.5


def test_range_and_ends():
    assert udcg([1.0] * 5, [0] * 5) == pytest.approx(0.41742979, abs=1e-8)
    assert udcg([1.0] * 5, [1] * 5) == pytest.approx(0.73105858, abs=1e-8)
    rng = random.Random(0)
    for _ in range(200):
        k = rng.randrange(1, 12)
        value = udcg([rng.random() for _ in range(k)], [rng.random() < 0.5 for _ in range(k)])
        assert 0.41742979 - 1e-8 <= value <= 0.73105858 + 1e-8


def test_large_utilities_do_not_overflow():
    assert udcg([1e6], [0], gamma=1.0) == 0.0
    assert udcg([1e6], [1]) == 1.0


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="2 utilities but 1"):
        udcg([0.1, 0.2], [1])


def test_order_inside_the_list_plays_no_part():
    assert udcg(USEFUL[::-1], LABELS[::-1], raw=True) == pytest.approx(udcg(USEFUL, LABELS, raw=True), abs=1e-15)


RUN = {"q1": [("a", 3.0), ("b", 2.0), ("c", 1.0)], "q2": [], "q9": [("a", 1.0)]}
QRELS = {"q1": {"a": 1.0, "b": 0.0}, "q2": {"a": 1.0}, "q3": {"a": 1.0}}
TABLE = {"q1": {"a": 0.9, "b": 0.6, "c": 0.3}}


def test_at_k():
    scores = udcg_at_k(RUN, TABLE, QRELS, 2)
    assert scores.raw == pytest.approx({"q1": (0.9 - 0.2) / 2, "q2": 0.0, "q3": 0.0})
    assert scores.values["q2"] == scores.values["q3"] == 0.0
    assert scores.values["q1"] == udcg([0.9, 0.6], [1, 0])
    assert (scores.passages, scores.missing_utilities, scores.unjudged_passages) == (2, 0, 0)


def test_unjudged_passages_are_irrelevant_unless_skipped_and_counted():
    assert udcg_at_k(RUN, TABLE, QRELS, 5).raw["q1"] == pytest.approx((0.9 - 0.2 - 0.1) / 3)
    skipped = udcg_at_k(RUN, TABLE, QRELS, 5, unjudged="skip")
    assert skipped.raw["q1"] == pytest.approx((0.9 - 0.2) / 3)
    assert skipped.unjudged_passages == 1


def test_missing_and_odd_utilities_are_counted():
    scores = udcg_at_k(RUN, {"q1": {"a": 1.5, "b": float("nan")}}, QRELS, 3)
    assert (scores.missing_utilities, scores.outside_unit) == (2, 1)
    assert scores.raw["q1"] == pytest.approx(1.5 / 3)


def test_ties_follow_the_one_ranking():
    tied = {"q1": [("a", 1.0), ("b", 1.0)]}
    assert udcg_at_k(tied, TABLE, {"q1": {"a": 1.0}}, 1).raw["q1"] == pytest.approx(-0.2)


def test_k_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        udcg_at_k(RUN, TABLE, QRELS, 0)
