"""nDCG with utilities as gains."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from utilitune.evaluation.udcg import udcg
from utilitune.rerank.dev_measure import CHOOSE_BY, measure, top_utility, utility_ndcg
from utilitune.rerank.groups import Group


def test_by_hand():
    # min-max gains of (-2, 0, 2) are (0, .5, 1); the scores order them .5, 1, 0
    gained = 0.5 / 1 + 1 / math.log2(3)
    best = 1 / 1 + 0.5 / math.log2(3)
    assert utility_ndcg([0.1, 0.9, 0.5], [-2, 0, 2]) == pytest.approx(gained / best)


def test_against_scikit_learn():
    from sklearn.metrics import ndcg_score

    generator = np.random.default_rng(0)
    for size in (2, 7, 15):
        utilities, scores = generator.random(size), generator.random(size)
        gains = (utilities - utilities.min()) / (utilities.max() - utilities.min())
        assert utility_ndcg(scores, utilities) == pytest.approx(ndcg_score([gains], [scores], k=10))


def test_ties_get_the_mean_over_their_orders_whatever_the_order_of_candidates():
    utilities = [0.0, 3.0, 1.0]
    every = [utility_ndcg(list(order), utilities) for order in itertools.permutations([3.0, 2.0, 1.0])]
    for turned in itertools.permutations(utilities):
        assert utility_ndcg([0.0, 0.0, 0.0], turned) == pytest.approx(np.mean(every))


def test_not_finite_ranks_last():
    assert utility_ndcg([math.nan, 0.0, -5.0], [0.0, 2.0, 1.0]) == pytest.approx(1.0)
    assert utility_ndcg([math.inf, 0.0, -5.0], [0.0, 2.0, 1.0]) == pytest.approx(1.0)


def test_measure_averages_over_queries_and_counts():
    groups = [Group(q, "x", ("a", "b"), ("s", "t"), (0.0, 1.0), (0.0, 1.0)) for q in "qr"]
    made = measure(groups, [[0.0, 2.0], [math.nan, math.nan]])
    assert made.non_finite == 2 and made.queries == 2
    assert made.spread == pytest.approx(0.5)  # (1 + 0) / 2
    tie = (1 + 1 / math.log2(3)) / 2
    assert made.ndcg == pytest.approx((1 + tie) / 2)
    assert made.top5 == pytest.approx(0.5)
    assert {by: made.worth(by) for by in CHOOSE_BY} == {"nDCG@10": made.ndcg, "utility@5": made.top5}


def test_utility_of_the_first_five_is_raw_udcg_where_utilities_are_signed():
    u, relevant = [0.9, 0.8, 0.1, 0.7, 0.6, 0.5, 0.4], [True, False, False, True, False, False, True]
    signed = [value if helps else -value / 3 for value, helps in zip(u, relevant, strict=True)]
    scores = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    assert top_utility(scores, signed) == pytest.approx(udcg(u[:1:-1], relevant[:1:-1], raw=True))
    assert top_utility(scores[:2], signed[:2]) == pytest.approx(udcg(u[:2], relevant[:2], raw=True))
    # Three tied ones share two places.
    assert top_utility([1.0, 0.0, 0.0, 0.0], [0.9, 0.3, 0.6, 0.0], k=3) == pytest.approx((0.9 + 2 * 0.3) / 3)
