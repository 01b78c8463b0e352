"""Draws: several answers of one prompt from one call, each stored under its own key."""

from dataclasses import replace

import pytest
from tiny_generator import Counted, TinyNumpy

from utilitune.generator.protocol import Generation, Prompt
from utilitune.scoring import Draw, Failure, LabelStore, Responder, Sample
from utilitune.scoring.response_key import ResponseKeys

NORTH, SOUTH = Prompt(plain="Orlen lies north.\nWhere?"), Prompt(plain="Orlen lies south.\nWhere?")
SAMPLE = Sample(NORTH, n=3, temperature=0.8, seed=5, max_new_tokens=4, stop=("\n",))


def respond(generator, requests, store=None):
    with LabelStore(store) as opened:
        return Responder(generator, opened).respond(requests)


def test_draws_are_the_answers_of_one_call(tiny):
    counted = Counted(tiny)
    south = replace(SAMPLE, prompt=SOUTH)
    asked = [*SAMPLE.draws("a").values(), *south.draws("b").values(), Draw(SAMPLE, 1)]
    responses = respond(counted, asked)
    assert len(responses) == 6
    assert len(counted.sampled) == 1, "one call for both prompts"
    for sample in (SAMPLE, south):
        expected = [tiny.sampled(sample.prompt, 4, ("\n",), 0.8, 5, number) for number in range(3)]
        assert [responses[Draw(sample, number)] for number in range(3)] == expected
        assert all(isinstance(each, Generation) for each in expected)
        assert len({each.text for each in expected}) > 1


def test_samples_of_another_kind_are_another_call(tiny):
    counted = Counted(tiny)
    for change in ({"n": 2}, {"temperature": 0.5}, {"seed": 6}, {"max_new_tokens": 3}, {"stop": ()}):
        other = replace(SAMPLE, **change)
        counted.sampled.clear()
        respond(counted, [Draw(SAMPLE, 0), Draw(other, 0)])
        assert len(counted.sampled) == 2
        assert ResponseKeys("g").drawn(Draw(other, 0)) != ResponseKeys("g").drawn(Draw(SAMPLE, 0))
    assert ResponseKeys("g").drawn(Draw(SAMPLE, 0)) != ResponseKeys("g").drawn(Draw(SAMPLE, 1))
    assert ResponseKeys("g").drawn(Draw(SAMPLE, 0)) != ResponseKeys("h").drawn(Draw(SAMPLE, 0))


def test_a_second_run_needs_no_model(tiny, tmp_path):
    counted = Counted(tiny)
    first = respond(counted, SAMPLE.draws("a").values(), tmp_path / "s.sqlite")
    second = respond(counted, SAMPLE.draws("b").values(), tmp_path / "s.sqlite")
    assert first == second
    assert len(counted.sampled) == 1


def test_a_draw_keeps_its_number_when_others_are_stored(tiny, tmp_path):
    respond(tiny, [Draw(SAMPLE, 0)], tmp_path / "s.sqlite")
    responses = respond(tiny, SAMPLE.draws("a").values(), tmp_path / "s.sqlite")
    assert responses == respond(tiny, SAMPLE.draws("a").values())


def test_a_refused_prompt_fails_alone():
    generator = TinyNumpy(window=60)
    long = replace(SAMPLE, prompt=Prompt(plain="x" * 100))
    samples = [SAMPLE, long, replace(SAMPLE, prompt=SOUTH)]
    responses = respond(generator, [Draw(sample, 2) for sample in samples])
    assert isinstance(responses[Draw(long, 2)], Failure)
    assert "refused" in responses[Draw(long, 2)].reason
    assert sum(isinstance(each, Generation) for each in responses.values()) == 2


class Short(Counted):
    """A backend whose answers can be given."""

    def __init__(self, inner, answers):
        super().__init__(inner)
        self.answers = answers

    def generate(self, prompts, **settings):
        return [self.answers for _ in prompts]


def test_a_backend_that_loses_answers_is_an_error(tiny):
    with pytest.raises(RuntimeError, match="did not return 3 answers"):
        respond(Short(tiny, [Generation("x", ("x",), (1,), (-1.0,), None)] * 2), [Draw(SAMPLE, 0)])


def test_an_answer_without_tokens_is_a_failure_and_the_others_stay(tiny):
    given = [Generation("x", ("x",), (1,), (-1.0,), None), Generation("", (), (), (), None)]
    responses = respond(Short(tiny, [*given, given[0]]), SAMPLE.draws("a").values())
    assert isinstance(responses[Draw(SAMPLE, 1)], Failure)
    assert responses[Draw(SAMPLE, 0)] == responses[Draw(SAMPLE, 2)] == given[0]
