"""Packaged models as judges: both letters have probabilities, equal answers tie, the bias of position drops out."""

import pytest

from utilitune.evaluation import judge_answers, win_rate
from utilitune.evaluation.judge import tally
from utilitune.generator import load_generator
from utilitune.records import Answer, Query

pytestmark = pytest.mark.integration

QUERIES = [
    Query("1", "Which city is the capital of France?", answers=("Paris",)),
    Query("2", "What do bees make?", answers=("honey",)),
]


def answers(*texts):
    return [Answer(query.id, (), text, False, None) for query, text in zip(QUERIES, texts, strict=True)]


@pytest.mark.parametrize("model", ["packaged:smollm2-135m-instruct", "packaged:gemma3-270m"])
def test_probability_reading_of_a_real_model(model, tmp_path):
    judge = load_generator(model, dtype="float32")
    good = answers("The capital of France is Paris.", "Bees make honey.")
    systems = {"good": good, "same": good, "bad": answers("Blue blue blue blue.", "Blue blue blue blue.")}
    rates = win_rate(systems, QUERIES, judge, dimensions=["Overall"], store=tmp_path / "judge.sqlite")
    assert rates.counts["ok"] == rates.counts["judgements"] == 12
    # Few-shot examples make the letters nearly all that the model says.
    assert all(each.mass > 0.5 for each in rates.judgements)
    (same,) = (each for each in tally(rates.judgements) if each.system_b == "same")
    assert same.rate("debiased").ties == 2
    first, second = (each for each in tally(rates.judgements) if each.system_b == "bad")
    assert [j.p_a for j in first.judgements] == pytest.approx([j.p_a for j in second.judgements], abs=1e-4)


def test_marks_of_a_real_model(tmp_path):
    judge = load_generator("packaged:smollm2-135m-instruct", dtype="float32")
    marks = judge_answers(answers("Paris", "stone"), QUERIES, judge, store=tmp_path / "judge.sqlite")
    assert [mark.status for mark in marks] == ["ok", "ok"]
    assert all(sum(mark.probabilities.values()) == pytest.approx(1) for mark in marks)
    assert marks[0].probabilities["CORRECT"] > marks[1].probabilities["CORRECT"]
