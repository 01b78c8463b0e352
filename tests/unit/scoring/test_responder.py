import pytest
from tiny_generator import Counted

from utilitune.generator.protocol import Generation, Prompt, TaskResult
from utilitune.scoring import Failure, Force, Greedy, LabelStore, Rescore, Responder

BARE, GROUNDED = Prompt(plain="Where?"), Prompt(plain="Orlen lies north.\nWhere?")


def test_equal_requests_are_one_and_come_back_under_each(tiny):
    counted = Counted(tiny)
    with LabelStore() as store:
        responses = Responder(counted, store).respond([Force(BARE, "x"), Force(Prompt(plain="Where?"), "x")])
    assert len(responses) == len(counted.computed) == 1


def test_a_rescoring_brings_its_answer_along(tiny):
    answer = Greedy(GROUNDED, 3)
    with LabelStore() as store:
        responses = Responder(tiny, store).respond([Rescore(BARE, answer)])
    assert responses[answer] == tiny.greedy(GROUNDED, 3, ())
    assert responses[Rescore(BARE, answer)] == tiny.scored(BARE, responses[answer].token_ids)


def test_two_limits_on_one_prompt_are_two_answers(tiny):
    with LabelStore() as store:
        responses = Responder(tiny, store).respond([Greedy(BARE, 2), Greedy(BARE, 5)])
    assert len(responses[Greedy(BARE, 2)].tokens) <= 2 < len(responses[Greedy(BARE, 5)].tokens)


class Answering(Counted):
    """A backend with a fixed answer, as a server without token ids would give it."""

    def __init__(self, inner, answer):
        super().__init__(inner)
        self.answer = answer

    def run(self, tasks):
        return [
            TaskResult(self.answer if task.max_new_tokens else None, result.continuations)
            for task, result in zip(tasks, super().run(tasks), strict=True)
        ]


def test_without_token_ids_the_text_is_rescored(tiny):
    backend = Answering(tiny, Generation("north", ("north",), (), (-1.0,), None))
    wanted = Rescore(BARE, Greedy(GROUNDED, 3))
    with LabelStore() as store:
        assert Responder(backend, store).respond([wanted])[wanted] == tiny.scored(BARE, "north")


@pytest.mark.parametrize("tokens", [0, 1])
def test_an_empty_answer_is_a_failure_and_never_a_number(tiny, tokens):
    empty = Generation("", ("",) * tokens, (), (-0.5,) * tokens, None)
    wanted = Rescore(BARE, Greedy(GROUNDED, 3))
    with LabelStore() as store:
        responses = Responder(Answering(tiny, empty), store).respond([wanted])
    assert isinstance(responses[wanted], Failure)


def test_a_backend_that_loses_a_result_is_an_error(tiny):
    class Losing(Counted):
        def run(self, tasks):
            return super().run(tasks)[:-1]

    with LabelStore() as store, pytest.raises(RuntimeError, match="one result a task"):
        Responder(Losing(tiny), store).respond([Force(BARE, "x"), Force(GROUNDED, "x")])
        assert store.stats()["responses"] == 0
