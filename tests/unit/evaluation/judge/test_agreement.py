"""Cohen's kappa, and a judge against people."""

import json
import random
import warnings

import pytest
from sklearn.metrics import cohen_kappa_score

from utilitune.errors import DataError
from utilitune.evaluation.judge import Judgement, agreement, compare_with_people, draw, read_human_verdicts
from utilitune.evaluation.judge.human import by_group
from utilitune.evaluation.judge.human_rendering import render_agreement


def test_kappa_by_hand():
    # 10 items: both right 4, both wrong 3, 2 + 1 apart. p_o .7; p_e .6*.5 + .4*.5 = .5; kappa .4.
    ours = ["r"] * 4 + ["w"] * 3 + ["r"] * 2 + ["w"]
    theirs = ["r"] * 4 + ["w"] * 3 + ["w"] * 2 + ["r"]
    found = agreement(ours, theirs)
    assert (found.n, found.same, found.share) == (10, 7, 0.7)
    assert found.kappa == pytest.approx(0.4)
    assert found.kappa_interval[0] < 0.4 < found.kappa_interval[1]


@pytest.mark.parametrize("seed", range(4))
def test_kappa_against_scikit_learn(seed):
    rng = random.Random(seed)
    ours = [rng.choice("ab t") for _ in range(60)]
    theirs = [a if rng.random() < 0.5 else rng.choice("abx") for a in ours]
    assert agreement(ours, theirs, resamples=10).kappa == pytest.approx(cohen_kappa_score(ours, theirs))


def test_one_label_throughout_has_no_kappa():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = agreement(["a"] * 5, ["a"] * 5)
    assert found.share == 1 and found.kappa is None and found.kappa_interval is None
    assert agreement(["a"] * 5, ["b"] * 5).kappa == 0
    with pytest.raises(DataError):
        agreement([], [])
    with pytest.raises(DataError):
        agreement(["a"], ["a", "b"])


@pytest.fixture
def human(tmp_path):
    rows = [
        {"_id": "1", "question": "q", "answer_a": "long answer", "answer_b": "x", "label": "A", "kind": "k1"},
        {"_id": "2", "question": "q", "answer_a": "long answer", "answer_b": "x", "label": "B", "kind": "k1"},
        {"_id": "3", "question": "q", "answer_a": "", "answer_b": "x", "label": "tie", "kind": "k2"},
        {"_id": "4", "question": "q", "answer_a": "y", "answer_b": "x", "label": "B", "kind": "k2"},
    ]
    path = tmp_path / "human.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def verdicts(*rows):
    return [
        Judgement(query_id, "A", "B", order, "Overall", verdict, p_a=p)
        for query_id, *both in rows
        for order, (verdict, p) in zip(("ab", "ba"), both, strict=True)
    ]


def test_judge_against_people_by_hand(human):
    rows = read_human_verdicts(human)
    judged = verdicts(
        ("1", ("a", 0.9), ("a", 0.6)),  # right in both orders
        ("2", ("a", 0.6), ("b", 0.1)),  # split; debiased b: right
        ("3", ("a", 0.9), ("b", 0.4)),  # split; debiased a: people tie
        ("4", ("a", 0.9), ("a", 0.8)),  # wrong
    )
    found = compare_with_people(rows, judged)
    strict, hirag, debiased = found.conventions
    assert found.human == {"A": 1, "B": 2, "tie": 1}
    # Decided by people: 1, 2, 4. Strict: 1 + 1/2 + 0; hirag the same; debiased: 1 + 1 + 0.
    assert strict.right == hirag.right == pytest.approx(1.5 / 3) and debiased.right == pytest.approx(2 / 3)
    # Without ties: strict 1 right, 1 wrong; debiased 2 right, 1 wrong.
    assert strict.p == 1.0 and debiased.p == 1.0
    # On three labels. Strict says a, tie, tie, a to A, B, tie, B; debiased a, b, a, a.
    assert (strict.labels.same, debiased.labels.same) == (2, 2)
    # Longer: right on 1, wrong on 2, equal lengths on 4.
    assert found.longer == pytest.approx(1.5 / 3)
    assert found.tally.consistent() == (2, 4)
    json.dumps(found.as_dict(), allow_nan=False)


def test_groups_and_table(human):
    rows = read_human_verdicts(human, by="kind")
    judged = verdicts(*((str(q), ("a", 0.9), ("a", 0.9)) for q in range(1, 5)))
    found = by_group(rows, judged)
    assert list(found) == ["(all)", "k1", "k2"]
    assert [each.rows for each in found.values()] == [4, 2, 2]
    text = render_agreement(found)
    assert "people: A 1, B 2, tie 1" in text and "(longer answer)" in text


def test_bad_files_and_draws(human):
    rows = read_human_verdicts(human)
    assert [row.comparison.query_id for row in draw(rows, 2, seed=1)] == sorted(
        row.comparison.query_id for row in draw(rows, 2, seed=1)
    )
    assert draw(rows, 9) == rows
    text = human.read_text()
    human.write_text(text.replace('"label": "tie"', '"label": "C"'))
    with pytest.raises(DataError, match=r"human.jsonl:3.*'label' is 'C'"):
        read_human_verdicts(human)
    human.write_text(text.replace('"_id": "4"', '"_id": "1"'))
    with pytest.raises(DataError, match="'1' appears twice"):
        read_human_verdicts(human)
    human.write_text("\n")
    with pytest.raises(DataError, match="no rows"):
        read_human_verdicts(human)
    with pytest.raises(DataError, match="0 pairs of systems"):
        compare_with_people(rows, [])


def test_few_decided_rows_prove_nothing(human):
    rows = read_human_verdicts(human)
    found = compare_with_people(rows, verdicts(("1", ("a", 0.9), ("a", 0.9)), ("2", ("a", 0.6), ("b", 0.1))))
    # One of one right besides a tie: an interval that leaves chance out, and a p of 1.
    assert found.conventions[0].right == 0.75 and found.conventions[0].p == 1.0
