"""The threshold to abstain at: by hand, against trying them all."""

from __future__ import annotations

import numpy as np
import pytest

from utilitune.rerank.threshold import choose_threshold


def test_by_hand():
    # Kept from 2 on: .9 + .5, then -.3 at 1 and -.2 at 0; the second query's best costs: it abstains.
    scores = [[3.0, 1.0, 2.0], [0.5, 0.0]]
    worths = [[0.9, -0.3, 0.5], [-0.1, -0.2]]
    made = choose_threshold(scores, worths, k=5)
    assert made.score == pytest.approx(1.5)
    assert made.value == pytest.approx(1.4 / 2) and made.value_of_all == pytest.approx((1.1 - 0.3) / 2)
    assert (made.kept, made.of, made.abstained, made.queries) == (2, 5, 1, 2)


def test_only_the_first_k_of_a_query_count():
    made = choose_threshold([[3.0, 2.0, 1.0]], [[0.9, -0.5, 5.0]], k=2)
    assert made.score == pytest.approx(2.5) and made.of == 2


def test_all_kept_and_none_kept():
    everything = choose_threshold([[1.0, 2.0]], [[0.1, 0.0]], k=5)
    assert everything.score is None and everything.kept == 2 and everything.abstained == 0
    nothing = choose_threshold([[1.0, 2.0]], [[-0.1, -0.2]], k=5)
    assert nothing.score > 2.0 and nothing.kept == 0 and nothing.abstained == 1 and nothing.value == 0.0


def test_equal_scores_are_kept_or_dropped_together():
    made = choose_threshold([[1.0, 1.0, 0.0]], [[0.9, -0.5, -0.1]], k=5)
    assert made.score == pytest.approx(0.5) and made.kept == 2


@pytest.mark.parametrize("seed", range(5))
def test_no_other_threshold_is_worth_more(seed):
    generator = np.random.default_rng(seed)
    scores = [generator.normal(size=6).round(1).tolist() for _ in range(8)]
    worths = [generator.normal(size=6).tolist() for _ in range(8)]
    made = choose_threshold(scores, worths, k=4)

    def worth(threshold):
        total = 0.0
        for row, worth_row in zip(scores, worths, strict=True):
            top = sorted(range(6), key=lambda i: -row[i])[:4]
            total += sum(worth_row[i] for i in top if row[i] >= threshold)
        return total / 8

    everything = [value for row in scores for value in row]
    best = max(worth(threshold) for threshold in [-99.0, 99.0, *everything])
    assert made.value == pytest.approx(best)
    assert worth(-99.0 if made.score is None else made.score) == pytest.approx(best)


def test_the_cross_fitted_value_is_what_the_other_half_s_threshold_gives():
    # Each half alone would keep from another score on: 2 cut by 1's threshold loses, and the reverse.
    made = choose_threshold([[1.0, 0.0], [3.0, 2.0]], [[1.0, -1.0], [1.0, -1.0]], k=5)
    # Half one keeps >= .5: of the other all, 0. Half two keeps >= 2.5: of the other nothing, 0.
    assert made.cross_fitted == pytest.approx(0.0)
    assert made.value == pytest.approx(0.5)
    assert choose_threshold([[1.0, 0.0]], [[1.0, -1.0]], k=5).cross_fitted is None


def test_a_conversation_is_in_one_half():
    scores, worths = [[1.0, 0.0], [1.1, 0.1], [3.0, 2.0], [3.1, 2.1]], [[1.0, -1.0]] * 4
    apart = choose_threshold(scores, worths, 5, ["a", "a", "b", "b"])
    # a keeps >= .55: of b all, 0. b keeps >= 2.55: of a nothing, 0.
    assert apart.cross_fitted == pytest.approx(0.0)
    assert choose_threshold(scores, worths, 5, ["a", "b", "a", "b"]).cross_fitted == pytest.approx(
        choose_threshold(scores, worths, 5).cross_fitted
    )
    assert choose_threshold(scores, worths, 5, ["a"] * 4).cross_fitted is None
