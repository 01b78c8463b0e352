"""Tests and intervals: exact enumeration, coverage, Holm by hand."""

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import permutation_test

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation import bootstrap_interval, holm, randomisation_p, significance, significance_family

EIGHT = [0.3, -0.1, 0.25, 0.0, 0.4, 0.05, -0.2, 0.5]


def enumerated(differences):
    observed = abs(sum(differences))
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(value >= observed - 1e-12 for value in sums) / len(sums)


def test_eight_pairs_equal_exact_enumeration():
    assert randomisation_p(EIGHT) == pytest.approx(enumerated(EIGHT), abs=1e-12)
    scipys = permutation_test(
        (np.array(EIGHT), np.zeros(8)), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
    )
    assert randomisation_p(EIGHT) == pytest.approx(scipys.pvalue, abs=1e-12)


def test_sampled_test_agrees_with_exact_enumeration():
    rng = np.random.default_rng(4)
    differences = rng.normal(0.15, 0.4, 17)
    signs = 1 - 2 * ((np.arange(2**17)[:, None] >> np.arange(17)) & 1)
    exact = (np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12).mean()
    sampled = randomisation_p(differences, resamples=20_000)
    assert sampled == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000) + 1e-4)


def test_no_difference_and_smallest_p():
    assert randomisation_p([0.0] * 50) == 1.0
    assert randomisation_p([]) == 1.0
    assert randomisation_p([1.0] * 200) == pytest.approx(1 / 10_001)
    assert randomisation_p([1.0] * 200 + [0.0] * 3000) == randomisation_p([1.0] * 200)


def test_p_is_uniform_when_nothing_is_there():
    rng = np.random.default_rng(1)
    p = [randomisation_p(rng.normal(0, 1, 30), resamples=500, seed=i) for i in range(400)]
    # 95 % band of a binomial(400, .05) is 12..29.
    assert 8 <= sum(value <= 0.05 for value in p) <= 34


def test_two_sided_and_order_free():
    assert randomisation_p([-d for d in EIGHT]) == randomisation_p(EIGHT)
    values = {f"q{i}": d for i, d in enumerate(EIGHT)}
    zeros = dict.fromkeys(values, 0.0)
    backwards = dict(reversed(list(values.items())))
    assert significance(zeros, values) == significance(zeros, backwards)


def test_bootstrap_covers_the_true_mean_about_95_in_100():
    rng = np.random.default_rng(2)
    hits = 0
    for seed in range(300):
        low, high = bootstrap_interval(rng.exponential(1.0, 60), resamples=600, seed=seed)
        hits += low <= 1.0 <= high
    assert 0.89 <= hits / 300 <= 0.98


def test_bootstrap_close_to_the_normal_interval_on_normal_data():
    data = np.random.default_rng(3).normal(0.5, 0.2, 400)
    low, high = bootstrap_interval(data)
    half = 1.96 * data.std(ddof=1) / 20
    assert (low, high) == pytest.approx((data.mean() - half, data.mean() + half), abs=0.002)
    narrow = bootstrap_interval(data, confidence=0.5)
    assert low < narrow[0] < narrow[1] < high


def test_too_little_data_has_no_interval():
    assert bootstrap_interval([]) is None
    assert bootstrap_interval([0.5]) is None
    empty = significance({}, {})
    assert (empty.n, empty.difference, empty.p) == (0, None, 1.0)
    with pytest.raises(ConfigError, match="confidence"):
        bootstrap_interval([1.0, 2.0], confidence=1.0)


def test_a_family_is_each_comparison_alone_with_holm():
    rng = np.random.default_rng(5)
    # Two lengths, one comparison that the exact test takes, one without any difference.
    pairs = [(rng.random(60).tolist(), rng.random(60).tolist()) for _ in range(3)]
    pairs += [(rng.random(40).tolist(), rng.random(40).tolist()), ([0.0] * 9, [*EIGHT, 0.1]), ([1.0] * 60, [1.0] * 60)]
    family = significance_family(pairs)
    alone = [significance(a, b) for a, b in pairs]
    assert [replace(each, p_holm=None) for each in family] == alone
    assert [each.p_holm for each in family] == holm([each.p for each in alone])
    assert alone[0].p_holm is None
    assert significance_family([]) == []


def test_seeded():
    data = np.random.default_rng(0).random(50)
    assert bootstrap_interval(data, seed=1) == bootstrap_interval(data, seed=1)
    assert bootstrap_interval(data, seed=1) != bootstrap_interval(data, seed=2)


def test_significance_by_hand():
    result = significance({"a": 0.0, "b": 1.0, "c": 0.5}, {"a": 1.0, "b": 1.0, "c": 0.25})
    assert (result.n, result.before, result.after, result.difference) == (3, 0.5, 0.75, 0.25)
    assert (result.wins, result.losses, result.ties) == (1, 1, 1)
    # Signs of (1, -.25): |sum| is 1.25, .75, .75, 1.25; all reach .75.
    assert result.p == 1.0
    assert result.low <= 0.25 <= result.high


def test_different_queries_are_refused():
    with pytest.raises(DataError, match="different queries"):
        significance({"a": 1.0}, {"b": 1.0})
    with pytest.raises(DataError, match="2 values against 1"):
        significance([1.0, 2.0], [1.0])
    with pytest.raises(DataError, match="not finite"):
        significance([1.0, float("nan")], [1.0, 2.0])
    with pytest.raises(DataError, match="same form"):
        significance({"a": 1.0}, [1.0])


def test_holm_by_hand():
    # Sorted .01 .02 .03 .04: 4*.01, 3*.02, 2*.03, 1*.04 made monotone.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([0.03]) == [0.03]


def test_twenty_measures_of_a_thousand_queries_in_ten_seconds():
    rng = np.random.default_rng(0)
    pairs = [(rng.random(1000).tolist(), rng.random(1000).tolist()) for _ in range(20)]
    # Seconds of this process: what else the machine does is not measured.
    start = time.process_time()
    significance_family(pairs)
    assert time.process_time() - start < 10
