"""Answering from the first passages: what the generator is shown, resume, refusals."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from utilitune.errors import ConfigError, DataError, ThresholdError
from utilitune.evaluation import answer_questions
from utilitune.evaluation.answer_accuracy import answer_counts
from utilitune.generator.protocol import Generation, GeneratorIdentity, Task, TaskResult
from utilitune.records import Passage, Query, Run, Turn


class EchoGenerator:
    """A deterministic stand-in for a language model: answers with the first word of the first document it is shown."""

    def __init__(self, model="echo", refuse=(), cut=()):
        self.identity = GeneratorIdentity(model, "0", "echo", "float64")
        self.counts: dict[str, int] = {}
        self.asked: list[Task] = []
        self.refuse = refuse
        self.cut = cut

    def run(self, tasks: Sequence[Task]) -> list[TaskResult]:
        for task in tasks:
            if any(word in task.prompt.plain for word in self.refuse):
                raise ValueError("prompt too long")
        self.asked += tasks
        return [TaskResult(self._answer(task), ()) for task in tasks]

    def _answer(self, task: Task) -> Generation:
        first = task.prompt.trim[0].split()[0] if task.prompt.trim else "NO-RESPONSE"
        return Generation(
            f" {first} ", (first,), (1,), (-0.5,), (0.25,), finish="length" if first in self.cut else "stop"
        )


CORPUS = {p.id: p for p in (Passage("a", "Alpha text"), Passage("b", "Beta text"), Passage("c", "Gamma text"))}
QUERIES = [Query("1", "first?"), Query("2", "second?"), Query("3", "third?", history=(Turn("user", "Earlier?"),))]
RUN = Run({"1": [("a", 1.0), ("b", 1.0), ("c", 0.5)], "2": [], "3": [("c", 0.1)]})


def test_reads_the_one_ranking_and_keeps_the_order():
    generator = EchoGenerator()
    answers = answer_questions(QUERIES, RUN, CORPUS, generator, k=2)
    assert [answer.query_id for answer in answers] == ["1", "2", "3"]
    assert [answer.passage_ids for answer in answers] == [("b", "a"), (), ("c",)]
    assert [answer.answer for answer in answers] == ["Beta", "NO-RESPONSE", "Gamma"]
    assert [answer.abstained for answer in answers] == [False, True, False]
    assert answers[0].logprob_mean == -0.5
    assert any("Earlier?" in task.prompt.plain for task in generator.asked)


def test_missing_ranking_is_asked_without_passages_and_said(capsys):
    answers = answer_questions([QUERIES[0]], Run(), CORPUS, EchoGenerator())
    assert answers[0].passage_ids == ()
    assert "asked without" in capsys.readouterr().err
    assert answer_questions([QUERIES[0]], RUN, CORPUS, EchoGenerator(), k=0)[0].passage_ids == ()
    assert "asked without" not in capsys.readouterr().err


def test_second_run_is_free_and_another_model_is_not(tmp_path):
    store = tmp_path / "s.sqlite"
    first, second, other = EchoGenerator(), EchoGenerator(), EchoGenerator("other")
    answers = answer_questions(QUERIES[:2], RUN, CORPUS, first, store=store)
    assert answer_questions(QUERIES, RUN, CORPUS, second, store=store)[:2] == answers
    assert (len(first.asked), len(second.asked)) == (2, 1)
    answer_questions(QUERIES, RUN, CORPUS, other, store=store)
    assert len(other.asked) == 3


def test_answers_cut_at_the_limit_are_marked_kept_and_counted(capsys):
    answers = answer_questions(QUERIES, RUN, CORPUS, EchoGenerator(cut=("Gamma",)))
    assert [answer.cut for answer in answers] == [False, False, True]
    assert answers[2].answer == "Gamma"
    assert "1 of 3 answers cut at" in capsys.readouterr().err
    queries = [replace(query, answers=("Gamma",)) for query in QUERIES]
    assert answer_counts(answers, queries)["answers cut"] == 1


def test_refused_questions_are_left_out_and_too_many_stop(capsys):
    generator = EchoGenerator(refuse=("second",))
    answers = answer_questions(QUERIES, RUN, CORPUS, generator, max_failed=0.5)
    assert [answer.query_id for answer in answers] == ["1", "3"]
    assert "question '2' has no answer: " in capsys.readouterr().err
    with pytest.raises(ThresholdError, match="1 of 3"):
        answer_questions(QUERIES, RUN, CORPUS, generator)


def test_bad_input():
    with pytest.raises(DataError, match="'zz' of the run for query '1'"):
        answer_questions([QUERIES[0]], Run({"1": [("zz", 1.0)]}), CORPUS, EchoGenerator())
    with pytest.raises(DataError, match="share an id"):
        answer_questions([QUERIES[0], replace(QUERIES[0])], RUN, CORPUS, EchoGenerator())
    with pytest.raises(ConfigError, match="k is -1"):
        answer_questions(QUERIES, RUN, CORPUS, EchoGenerator(), k=-1)
    assert answer_questions([], RUN, CORPUS, EchoGenerator()) == []


def test_more_questions_than_a_chunk():
    many = [Query(f"q{i}", f"question {i}?") for i in range(150)]
    run = Run({query.id: [("abc"[i % 3], 1.0)] for i, query in enumerate(many)})
    answers = answer_questions(many, run, CORPUS, EchoGenerator())
    assert [answer.answer for answer in answers] == [("Alpha", "Beta", "Gamma")[i % 3] for i in range(150)]
