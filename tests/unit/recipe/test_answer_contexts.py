"""Answers by context: asked once, in an order that shares what it can, and given back to every system."""

import pytest

from utilitune.recipe.stages import answer_contexts as module
from utilitune.recipe.stages.answer_contexts import answer_contexts, answers_of, context
from utilitune.records import Answer, Query, Run

QUERIES = [Query("q", "Where?"), Query("r", "Why?")]


@pytest.fixture
def asked(monkeypatch):
    """Stands in for the generator's side: notes what it is asked, refuses what holds the passage ``bad``."""
    log = []

    def answer(queries, run, passages, generator, *, k, store):
        log.append([(query.text, tuple(pid for pid, _ in run[query.id][:k])) for query in queries])
        return [
            Answer(query.id, ids, f"{text} {'+'.join(ids)}", False, None)
            for query, (text, ids) in zip(queries, log[-1], strict=True)
            if "bad" not in ids
        ]

    monkeypatch.setattr(module, "answer_questions", answer)
    return log


def test_every_context_is_asked_once_and_those_that_begin_alike_stand_together(asked, tmp_path):
    contexts = [("r", ("b",)), ("q", ("a", "b")), ("q", ("b",)), ("q", ("a",)), ("q", ()), ("q", ("a",))]
    found = answer_contexts(QUERIES, contexts, {}, None, tmp_path / "s.sqlite")
    assert asked == [
        [("Where?", ("a",)), ("Where?", ("a", "b")), ("Where?", ("b",)), ("Why?", ("b",))],
        [("Where?", ())],
    ]
    assert {*found} == {*contexts}
    assert found["q", ("a", "b")] == Answer("q", ("a", "b"), "Where? a+b", False, None)


def test_systems_find_their_answers_by_what_they_show(asked, tmp_path):
    run = Run({"q": [("low", 1.0), ("high", 2.0)], "r": [("bad", 1.0)]})
    assert context("q", run, 1) == ("q", ("high",)) and context("missing", run, 3) == ("missing", ())
    found = answer_contexts(QUERIES, [context(q.id, run, 2) for q in QUERIES], {}, None, tmp_path / "s.sqlite")
    assert [one.answer for one in answers_of(QUERIES, run, 2, found)] == ["Where? high+low"]
