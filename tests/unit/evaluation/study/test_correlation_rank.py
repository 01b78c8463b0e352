"""Rank correlations: by hand, against scipy, their invariants, their intervals."""

import math
import random

import numpy as np
import pytest
from scipy import stats

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.study.correlation.rank import Draws, estimate, share


def data_only(values, right):
    found = Draws(len(values), resamples=1).correlate(values, right, range(len(values)))
    return found.spearman[0], found.kendall[0]


def test_by_hand_without_ties():
    """Ranks 1 2 3 4, right 0 0 1 1: covariance ½, spreads √1.25 and ½; C - D = 4, n₀ = 6, n₂ = 2."""
    rho, tau = data_only([0.1, 0.2, 0.3, 0.4], [False, False, True, True])
    assert rho == pytest.approx(0.5 / (math.sqrt(1.25) * 0.5))
    assert tau == pytest.approx(4 / math.sqrt(6 * 4))


def test_by_hand_with_ties():
    """Values 1 1 2, right 0 1 1: mid-ranks 1.5 1.5 3; C - D = 1, one pair is tied in each."""
    rho, tau = data_only([1.0, 1.0, 2.0], [False, True, True])
    assert rho == pytest.approx((1.5 + 3 - 2 * 2) / 3 / math.sqrt(0.5 * 2 / 9))
    assert tau == pytest.approx(1 / math.sqrt((3 - 1) * (3 - 1)))


@pytest.mark.parametrize("seed", range(5))
def test_as_scipy(seed):
    rng = random.Random(seed)
    values = [round(rng.random(), rng.choice((1, 3))) for _ in range(60)]
    right = [rng.random() < value for value in values]
    rho, tau = data_only(values, right)
    assert rho == pytest.approx(stats.spearmanr(values, right).statistic)
    assert tau == pytest.approx(stats.kendalltau(values, right).statistic)


@pytest.mark.parametrize("seed", range(3))
def test_every_draw_as_scipy_on_the_rows_that_were_drawn(seed):
    """Rows of drawn questions, written out as often as they were drawn."""
    rng = random.Random(seed)
    owners = [number % 8 for number in range(24)]
    values = [rng.randrange(6) / 5 for _ in owners]
    right = [rng.random() < 0.4 for _ in owners]
    draws = Draws(8, resamples=20, seed=seed)
    found = draws.correlate(values, right, owners)
    for place, times in enumerate(draws.times):
        rows = [row for row, owner in enumerate(owners) for _ in range(int(times[owner]))]
        x, y = [values[row] for row in rows], [right[row] for row in rows]
        if len(set(x)) < 2 or len(set(y)) < 2:
            assert math.isnan(found.spearman[place])
            continue
        assert found.spearman[place] == pytest.approx(stats.spearmanr(x, y).statistic)
        assert found.kendall[place] == pytest.approx(stats.kendalltau(x, y).statistic)


def test_order_and_monotone_maps_change_nothing():
    rng = random.Random(1)
    values = [rng.randrange(9) / 10 for _ in range(50)]
    right = [rng.random() < 0.5 for _ in values]
    owners = [number // 2 for number in range(50)]
    draws = Draws(25, resamples=50)
    plain = draws.correlate(values, right, owners)
    order = rng.sample(range(50), 50)
    shuffled = draws.correlate(
        [values[each] for each in order], [right[each] for each in order], [owners[each] for each in order]
    )
    mapped = draws.correlate([math.exp(3 * value) for value in values], right, owners)
    turned = draws.correlate([-value for value in values], right, owners)
    for other in (shuffled, mapped):
        assert other.spearman == pytest.approx(plain.spearman)
        assert other.kendall == pytest.approx(plain.kendall)
    assert -turned.spearman == pytest.approx(plain.spearman)
    assert -turned.kendall == pytest.approx(plain.kendall)


def test_many_rows_are_drawn_in_blocks_alike(monkeypatch):
    rng = random.Random(2)
    values, right = [rng.random() for _ in range(30)], [rng.random() < 0.5 for _ in range(30)]
    whole = Draws(30, resamples=40).correlate(values, right, range(30))
    monkeypatch.setattr("utilitune.evaluation.study.correlation.rank._CELLS_AT_ONCE", 100)
    parts = Draws(30, resamples=40).correlate(values, right, range(30))
    assert np.array_equal(whole.spearman, parts.spearman, equal_nan=True)
    assert np.array_equal(whole.kendall, parts.kendall, equal_nan=True)


@pytest.mark.parametrize(
    ("values", "right"),
    [
        ([0.5] * 4, [True, False] * 2),
        ([0.1, 0.2], [True, True]),
        ([0.1, 0.2], [False, False]),
        ([], []),
        ([1.0], [True]),
    ],
)
def test_constant_or_empty_is_undefined_never_zero(values, right):
    rho, tau = data_only(values, right)
    assert math.isnan(rho)
    assert math.isnan(tau)
    assert estimate(np.array([rho, 0.3])).value is None


def test_rounding_is_no_order():
    """0.1 + 0.2 and 0.3 are one number."""
    assert all(map(math.isnan, data_only([0.1 + 0.2, 0.3], [True, False])))


def test_interval_covers_and_whole_questions_are_drawn():
    """Ten equal copies of each question carry no more than one: the interval must not shrink."""
    rng = random.Random(3)
    values = [rng.random() for _ in range(40)]
    right = [rng.random() < value for value in values]
    draws = Draws(40, resamples=400)
    one = estimate(draws.correlate(values, right, range(40)).spearman)
    ten = estimate(draws.correlate(values * 10, right * 10, [number % 40 for number in range(400)]).spearman)
    assert one.low < one.value < one.high
    assert ten.value == pytest.approx(one.value)
    assert ten.high - ten.low == pytest.approx(one.high - one.low, rel=0.02)


def test_one_question_has_no_interval():
    found = estimate(Draws(1).correlate([0.1, 0.2], [False, True], [0, 0]).spearman)
    assert (found.value, found.low, found.high) == (1.0, None, None)


def test_same_seed_same_draws_and_none_is_refused():
    assert np.array_equal(Draws(9, resamples=5, seed=4).times, Draws(9, resamples=5, seed=4).times)
    with pytest.raises(ConfigError, match="resamples is 0"):
        Draws(9, resamples=0)


def test_share_of_nothing_is_nothing():
    assert share([]).value is None
    assert (share([True]).value, share([True]).low) == (1.0, None)
    assert share([True, False, True, True]).value == 0.75


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused(odd):
    with pytest.raises(DataError, match="NaN or infinite"):
        Draws(3).correlate([0.1, odd, 0.3], [True, False, True], [0, 1, 2])
