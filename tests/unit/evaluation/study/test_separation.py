"""AUROC and τ-b: by hand, against scikit-learn and SciPy, and the interval by drawing questions plainly."""

import math

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import roc_auc_score

from utilitune.evaluation.study.separation import separation

QUESTIONS = [[(3.0, True), (1.0, False), (2.0, False)], [(2.0, True), (1.5, False), (5.0, False)]]


def random_questions(seed, count=30, values=6):
    rng = np.random.default_rng(seed)
    return [
        [(float(rng.integers(values)), bool(rng.random() < 0.3)) for _ in range(rng.integers(1, 7))]
        for _ in range(count)
    ]


def flat(questions):
    rows = [row for question in questions for row in question]
    return [number for number, _ in rows], [flag for _, flag in rows]


def test_by_hand():
    found = separation(QUESTIONS)
    # 3 is above 1, 2, 1.5; 2 is above 1 and 1.5 and level with 2: 5.5 of 8 pairs.
    assert found.auroc == pytest.approx(5.5 / 8)
    # Within: 2 of 2, then 1 of 2.
    assert (found.within, found.within_questions) == (0.75, 2)
    # Concordant minus discordant 8 (2 · 5.5/8 - 1) = 3; of 15 pairs one ties in number, 1 + 6 in kind.
    assert found.tau == pytest.approx(3 / math.sqrt(14 * 8))
    assert (found.positives, found.negatives) == (2, 4)


@pytest.mark.parametrize("seed", range(5))
def test_equals_scikit_learn_and_scipy(seed):
    questions = random_questions(seed)
    numbers, flags = flat(questions)
    found = separation(questions, resamples=10)
    assert found.auroc == pytest.approx(roc_auc_score(flags, numbers), abs=1e-12)
    assert found.tau == pytest.approx(kendalltau(numbers, flags).statistic, abs=1e-12)
    # τ-b from the pair counts.
    ties = sum(count * (count - 1) / 2 for count in np.unique(numbers, return_counts=True)[1])
    pairs = found.positives * found.negatives
    whole = len(numbers) * (len(numbers) - 1) / 2
    assert found.tau == pytest.approx(pairs * (2 * found.auroc - 1) / math.sqrt((whole - ties) * pairs))
    both = [flat([question]) for question in questions if len({flag for _, flag in question}) == 2]
    assert found.within_questions == len(both)
    assert found.within == pytest.approx(np.mean([roc_auc_score(own, values) for values, own in both]))


def test_interval_equals_drawing_whole_questions():
    questions = random_questions(3, count=12)
    rng = np.random.default_rng(7)
    drawn = []
    for _ in range(200):
        numbers, flags = flat([questions[index] for index in rng.integers(0, 12, 12)])
        drawn.append(roc_auc_score(flags, numbers))
    found = separation(questions, resamples=200, seed=7)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))
    assert found.low < found.auroc < found.high


def test_what_cannot_be_told_is_absent_not_zero():
    for questions in ([], [[]], [[(1.0, True)], [(2.0, True)]], [[(1.0, False)]]):
        found = separation(questions)
        assert (found.auroc, found.low, found.within, found.tau) == (None, None, None, None)
    constant = separation([[(1.0, True), (1.0, False)]] * 3)
    assert (constant.auroc, constant.within, constant.tau) == (0.5, 0.5, None)
    assert separation(QUESTIONS[:1]).low is None, "one question has no interval"
    apart = separation([[(1.0, True)], [(2.0, False)]])
    assert (apart.auroc, apart.within, apart.within_questions) == (0.0, None, 0)


def test_order_of_questions_and_rows_and_scale_do_not_matter():
    questions = random_questions(9)
    turned = [[(3 * number - 8, flag) for number, flag in reversed(question)] for question in reversed(questions)]
    ours, theirs = separation(questions, resamples=10), separation(turned, resamples=10)
    assert ours.auroc == pytest.approx(theirs.auroc)
    assert ours.within == pytest.approx(theirs.within)
    assert ours.tau == pytest.approx(theirs.tau)
    opposite = separation([[(number, not flag) for number, flag in question] for question in questions], resamples=10)
    assert opposite.auroc == pytest.approx(1 - ours.auroc)
