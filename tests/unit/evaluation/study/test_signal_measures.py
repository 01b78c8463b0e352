"""Share beaten, sign test and reciprocal rank: by hand, by enumeration, and what must not matter."""

from itertools import permutations
from statistics import fmean

import numpy as np
import pytest

from utilitune.evaluation.study.signal_measures import reciprocal_rank, share_beaten, sign_test

# 2 beats 1 and 0, ties with 2, loses to 3; the second beats both; the third loses; the fourth has nobody to beat.
GROUPS = [(2.0, [1.0, 2.0, 3.0, 0.0]), (1.0, [0.0, 0.0]), (0.0, [1.0]), (5.0, [])]


def test_share_by_hand():
    share = share_beaten(GROUPS)
    assert (share.questions, share.pairs, share.wins, share.ties, share.losses) == (3, 7, 4, 1, 2)
    assert share.per_question == (0.625, 1.0, 0.0)
    assert share.share == pytest.approx(1.625 / 3)
    assert (share.better, share.worse, share.p) == (2, 1, 1.0)
    assert 0.0 <= share.low <= share.share <= share.high <= 1.0


def test_share_of_questions_is_share_of_pairs_where_all_have_equally_many():
    rng = np.random.default_rng(0)
    groups = [(float(rng.integers(4)), [float(value) for value in rng.integers(4, size=4)]) for _ in range(50)]
    pairs = [(gold > other) + (gold == other) / 2 for gold, others in groups for other in others]
    assert share_beaten(groups).share == pytest.approx(fmean(pairs))


def test_sign_test_by_hand():
    assert sign_test(8, 1) == pytest.approx(2 * (1 + 9) / 2**9)
    assert sign_test(1, 8) == sign_test(8, 1)
    assert sign_test(5, 0) == pytest.approx(2 / 2**5)
    assert sign_test(4, 4) == sign_test(0, 0) == 1.0


def test_reciprocal_rank_by_hand():
    rank = reciprocal_rank(GROUPS)
    # Behind 3 and level with 2: rank 2 or 3. Then rank 1. Then rank 2 of 2.
    assert rank.mrr == pytest.approx(((1 / 2 + 1 / 3) / 2 + 1 + 1 / 2) / 3)
    assert rank.pessimistic == pytest.approx((1 / 3 + 1 + 1 / 2) / 3)
    assert rank.chance == pytest.approx((137 / 60 / 5 + 11 / 6 / 3 + 3 / 4) / 3)
    assert (rank.questions, rank.tied) == (3, 1)
    assert rank.low <= rank.mrr <= rank.high


@pytest.mark.parametrize("others", [[1, 1, 1], [0, 1, 2], [1, 1, 2], [2, 2, 2], [0, 0, 0]])
def test_expected_reciprocal_rank_is_the_mean_over_all_orders_of_tied_passages(others):
    # Enumerate: break ties by every order of the candidates; number 0 is gold with worth 1.
    worth = [1, *others]
    ranks = [
        1 + sorted(range(4), key=lambda each: (-worth[each], order.index(each))).index(0)
        for order in permutations(range(4))
    ]
    rank = reciprocal_rank([(1.0, [float(other) for other in others])])
    assert rank.mrr == pytest.approx(fmean(1 / each for each in ranks))
    assert rank.pessimistic == pytest.approx(1 / max(ranks))


def test_a_constant_is_chance():
    constant = [(0.3, [0.3] * 4)] * 20
    share, rank = share_beaten(constant), reciprocal_rank(constant)
    assert (share.share, share.low, share.high, share.p, share.ties) == (0.5, 0.5, 0.5, 1.0, 80)
    assert rank.mrr == pytest.approx(rank.chance)
    assert rank.pessimistic == pytest.approx(1 / 5)


def test_nothing_to_beat_is_no_number():
    for groups in ([], [(1.0, [])]):
        share, rank = share_beaten(groups), reciprocal_rank(groups)
        assert (share.share, share.low, share.p, share.questions) == (None, None, 1.0, 0)
        assert (rank.mrr, rank.pessimistic, rank.chance) == (None, None, None)
    assert share_beaten(GROUPS[1:2]).low is None, "one question has no interval"


def test_only_the_order_of_the_numbers_matters():
    bent = [(np.exp(gold) * 100, [np.exp(other) * 100 for other in others]) for gold, others in GROUPS]
    assert share_beaten(bent) == share_beaten(GROUPS)
    assert reciprocal_rank(bent) == reciprocal_rank(GROUPS)
    flipped = [(-gold, [-other for other in others]) for gold, others in GROUPS]
    assert share_beaten(flipped).share == pytest.approx(1 - share_beaten(GROUPS).share)
