"""Strengths against the likelihood's own maximum."""

import numpy as np
import pytest
from scipy.optimize import minimize

from utilitune.errors import DataError
from utilitune.evaluation.judge import Judgement, bradley_terry, fit_strengths, tally


def maximum(wins):
    """Maximise the Bradley-Terry likelihood with a general optimiser."""
    wins = np.asarray(wins, float)

    def loss(s):
        return (wins * np.logaddexp(0, s[None, :] - s[:, None])).sum()

    found = minimize(loss, np.zeros(len(wins)), method="BFGS", options={"gtol": 1e-10}).x
    return found - found.mean()


def test_two_systems_by_hand():
    strengths, virtual = fit_strengths([[0, 6], [2, 0]])
    assert strengths[0] - strengths[1] == pytest.approx(np.log(3)) and strengths.sum() == pytest.approx(0)
    assert not virtual


def test_equal_wins_are_equal_strengths():
    strengths, _ = fit_strengths(3 * (1 - np.eye(4)))
    assert strengths == pytest.approx([0, 0, 0, 0], abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_against_a_general_optimiser(seed):
    wins = np.random.default_rng(seed).integers(1, 20, (5, 5)).astype(float)
    np.fill_diagonal(wins, 0)
    assert fit_strengths(wins)[0] == pytest.approx(maximum(wins), abs=1e-5)


def test_many_tables_at_once_are_the_tables_one_by_one():
    wins = np.random.default_rng(1).integers(0, 4, (6, 3, 3)).astype(float)
    together, _ = fit_strengths(wins)
    assert together == pytest.approx(np.stack([fit_strengths(each)[0] for each in wins]), abs=1e-6)


def test_a_system_that_never_loses_gets_a_finite_strength_and_says_so():
    wins = np.array([[0, 4, 4], [0, 0, 3], [0, 2, 0]], float)
    strengths, virtual = fit_strengths(wins)
    assert virtual and np.isfinite(strengths).all() and strengths[0] > strengths[1] > strengths[2]
    assert strengths == pytest.approx(maximum(wins + 0.5 * (1 - np.eye(3))), abs=1e-5)


def judged(rows):
    """Both orders of each ``(question, system, system, better)``."""
    return [
        Judgement(q, a, b, order, "Overall", "a" if won == a else "b" if won == b else "tie")
        for q, a, b, won in rows
        for order in ("ab", "ba")
    ]


def test_from_judgements_with_ties_as_half_wins():
    rows = [("1", "x", "y", "x"), ("2", "x", "y", "tie"), ("3", "x", "y", "y"), ("4", "x", "y", "x")]
    rows += [(str(q), "y", "z", "y" if q < 3 else "z") for q in range(1, 5)]
    rows += [("1", "x", "z", "x"), ("2", "x", "z", "z"), ("3", "x", "z", "x"), ("4", "x", "z", "x")]
    found = bradley_terry(tally(judged(rows)), resamples=200)
    assert [row.system for row in found.strengths] == ["x", "y", "z"] and not found.virtual_ties
    by_hand = maximum([[0, 2.5, 3], [1.5, 0, 2], [1, 2, 0]])
    assert [row.strength for row in found.strengths] == pytest.approx(sorted(by_hand)[::-1], abs=1e-5)
    assert all(row.interval[0] <= row.strength <= row.interval[1] for row in found.strengths)
    assert found.questions == 4


def test_nothing_to_rank():
    with pytest.raises(DataError, match="no verdicts"):
        bradley_terry(tally([Judgement("1", "x", "y", "ab", "Overall", None, "unparsed")]))
    with pytest.raises(DataError, match="0 dimensions"):
        bradley_terry([])
