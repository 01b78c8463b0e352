"""Temperature and shift: a known truth, scikit-learn, separable scores, what cannot be fitted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from utilitune.errors import DataError
from utilitune.rerank.platt import fit_temperature, probability


def test_a_known_temperature_is_found():
    scores = np.linspace(-10, 10, 4001)
    truth = 1 / (1 + np.exp(-(scores - 1.5) / 2.5))
    temperature, shift = fit_temperature(scores, truth)
    assert temperature == pytest.approx(2.5, rel=5e-3) and shift == pytest.approx(1.5, abs=1e-2)


def test_against_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(3)
    scores = generator.normal(40.0, 7.0, 3000)  # far from zero, as a ranking loss may leave them
    labels = generator.random(3000) < 1 / (1 + np.exp(-(scores - 41) / 4))
    reference = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(scores[:, None], labels)
    temperature, shift = fit_temperature(scores, labels.astype(float))
    # Drawing the targets in moves 3000 labels by 1/3002 each.
    assert 1 / temperature == pytest.approx(reference.coef_[0, 0], rel=5e-3)
    assert -shift / temperature == pytest.approx(reference.intercept_[0], rel=5e-3)


def test_scores_that_separate_perfectly_have_a_finite_temperature():
    temperature, shift = fit_temperature([-2.0, -1.0, 1.0, 2.0], [0.0, 0.0, 1.0, 1.0])
    assert math.isfinite(temperature) and 0.05 < temperature < 5
    assert shift == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize(
    ("scores", "targets", "message"),
    [
        ([1.0, 1.0, 1.0], [0.0, 1.0, 1.0], "all 3 scores are equal"),
        ([1.0, 2.0], [1.0, 1.0], "all 2 targets are equal"),
        ([3.0, 2.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0], "do not rise"),
    ],
)
def test_what_cannot_be_fitted_is_refused(scores, targets, message):
    with pytest.raises(DataError, match=message):
        fit_temperature(scores, targets)


def test_probability_by_hand():
    assert probability(0.0) == 0.5
    assert probability(math.log(3)) == pytest.approx(0.75)
    assert probability(-800.0) == 0.0 and probability(800.0) == 1.0
    assert probability(30.0) < 1.0
