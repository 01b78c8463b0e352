"""Marks of single answers."""

from math import log

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation import judge_answers
from utilitune.evaluation.judge import marks_against_match
from utilitune.generator.protocol import Continuation, Generation, GeneratorIdentity, TaskResult
from utilitune.records import Answer, Query


class Marker:
    """A stand-in for a judge model: CORRECT where a right answer occurs in the answer, written or as probabilities."""

    def __init__(self, says=None, refuse="!"):
        self.identity = GeneratorIdentity("marker", "0", "fake", "float64")
        self.counts = {}
        self.says = says
        self.refuse = refuse
        self.asked = []

    def run(self, tasks):
        if any(self.refuse in task.prompt.plain for task in tasks):
            raise ValueError("refused")
        self.asked += tasks
        return [self.one(task) for task in tasks]

    def one(self, task):
        lines = task.prompt.messages[-1][1].strip().splitlines()
        golds, answer = lines[-3].removeprefix("Right answer: ").split(" or "), lines[-2].removeprefix("Answer: ")
        word = self.says or ("CORRECT" if any(gold in answer for gold in golds) else "INCORRECT")
        shares = {mark: 0.6 if mark == word else 0.1 for mark in ("CORRECT", "INCORRECT", "ABSTAINED")}
        scored = [
            Continuation(text, (text,), (1,), (log(shares[text.strip()] / (2 if text[0] == " " else 1)),), None)
            for text in task.continuations
        ]
        answer = Generation(word, (word,), (1,), (-0.1,), None) if task.max_new_tokens else None
        return TaskResult(answer, tuple(scored))


QUERIES = [
    Query("1", "Capital?", answers=("Tal", "Tal City")),
    Query("2", "River?", answers=("Velda",)),
    Query("3", "King?", answers=("Edda",)),
    Query("4", "No gold?"),
]
ANSWERS = [
    Answer("4", (), "anything", False, None),
    Answer("2", (), "the Orrin", False, None),
    Answer("1", (), "It is Tal.", False, None),
    Answer("3", (), "NO-RESPONSE", True, None),
]


@pytest.mark.parametrize("reading", ["probability", "word"])
def test_marks_follow_the_questions(reading):
    judge = Marker()
    marks = judge_answers(ANSWERS, QUERIES, judge, reading=reading)
    assert [(mark.query_id, mark.mark) for mark in marks] == [("1", "CORRECT"), ("2", "INCORRECT"), ("3", "ABSTAINED")]
    assert len(judge.asked) == 2  # nothing is asked about a flagged abstention
    if reading == "probability":
        assert marks[0].probabilities == pytest.approx({"CORRECT": 0.75, "INCORRECT": 0.125, "ABSTAINED": 0.125})
    found = marks_against_match(marks, ANSWERS, QUERIES)
    assert (found.n, found.same, found.kappa) == (3, 3, 1.0)


def test_agreement_is_about_what_has_a_mark(tmp_path):
    marks = judge_answers(ANSWERS, QUERIES, Marker(says="CORRECT"), reading="word")
    # Two of three like string match: 1 right, 2 marked right though it is wrong, 3 abstained.
    found = marks_against_match(marks, ANSWERS, QUERIES)
    assert (found.n, found.same) == (3, 2)
    odd = judge_answers(ANSWERS, QUERIES, Marker(says="It is correct"), reading="word")
    assert [mark.status for mark in odd] == ["unparsed", "unparsed", "ok"] and odd[0].raw == "It is correct"
    assert marks_against_match(odd, ANSWERS, QUERIES).n == 1


def test_refused_and_wrong_input():
    marks = judge_answers(ANSWERS, QUERIES, Marker(refuse="Orrin"))
    assert [mark.status for mark in marks] == ["ok", "failed", "ok"] and "refused" in marks[1].raw
    with pytest.raises(ConfigError, match="known: probability, word"):
        judge_answers(ANSWERS, QUERIES, Marker(), reading="json")
    with pytest.raises(ConfigError, match="contains or EM"):
        marks_against_match(marks, ANSWERS, QUERIES, "F1")
    with pytest.raises(DataError, match="nothing can be marked"):
        judge_answers(ANSWERS[:1], QUERIES, Marker())


def test_second_run_is_free(tmp_path):
    first, second = Marker(), Marker()
    marks = judge_answers(ANSWERS, QUERIES, first, store=tmp_path / "s.sqlite")
    assert judge_answers(ANSWERS, QUERIES, second, store=tmp_path / "s.sqlite") == marks
    assert not second.asked
