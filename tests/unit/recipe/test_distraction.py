"""Which wrong answers a distractor is to blame for: every case by hand."""

import pytest

from utilitune.recipe.stages.distraction import made_wrong, relevant_alone
from utilitune.records import Answer, Query

QUERY = Query("q", "Where?", answers=("Rome",))


def answer(text, *passages, abstained=False):
    return Answer("q", passages, text, abstained, None)


RIGHT, WRONG, ABSTAINED = "Rome", "Oslo", "NO-RESPONSE"


@pytest.mark.parametrize(
    ("given", "bare", "alone", "expected"),
    [
        pytest.param(answer(WRONG, "d"), answer(RIGHT), None, 1.0, id="it knew the answer"),
        pytest.param(answer(WRONG, "d"), answer(ABSTAINED, abstained=True), None, 1.0, id="it would have abstained"),
        pytest.param(
            answer(WRONG, "g", "d"), answer(WRONG), answer(RIGHT, "g"), 1.0, id="it read the relevant one right"
        ),
        pytest.param(answer(WRONG, "d"), answer(WRONG), answer(RIGHT, "g"), 0.0, id="the relevant one was not found"),
        pytest.param(answer(WRONG, "g", "d"), answer(WRONG), answer(WRONG, "g"), 0.0, id="it cannot read it either"),
        pytest.param(answer(RIGHT, "g", "d"), answer(RIGHT), answer(RIGHT, "g"), 0.0, id="it is right"),
        pytest.param(answer(ABSTAINED, "d", abstained=True), answer(RIGHT), None, 0.0, id="it abstains"),
        pytest.param(None, answer(RIGHT), answer(RIGHT, "g"), 0.0, id="it gave no answer"),
        pytest.param(answer(WRONG, "g"), None, None, 0.0, id="nothing to compare with"),
    ],
)
def test_a_wrong_answer_is_a_distractor_s_only_when_less_was_better(given, bare, alone, expected):
    lists = ([one] if one is not None else [] for one in (given, bare, alone))
    assert made_wrong([QUERY], *lists) == {"q": expected}


def test_questions_without_gold_answers_are_left_out():
    assert made_wrong([QUERY, Query("r", "Why?")], [answer(WRONG, "d")], [answer(RIGHT)], []) == {"q": 1.0}


def test_the_relevant_passages_stand_best_grade_first():
    qrels = {"q": {"low": 1.0, "best": 2.0, "also": 1.0, "not": 0.0}, "other": {"x": 1.0}}
    assert relevant_alone([QUERY, Query("r", "Why?")], qrels) == {"q": ("best", "also", "low")}
