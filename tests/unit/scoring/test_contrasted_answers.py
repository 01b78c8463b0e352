"""Texts scored under the contrast of two prompts: only by generators that can, stored like everything else."""

from dataclasses import replace

import pytest
from tiny_generator import Counted, TinyNumpy

from utilitune.generator.protocol import ContrastScorer, Prompt
from utilitune.scoring import Contrast, Failure, Force, LabelStore, Responder
from utilitune.scoring.response_key import ResponseKeys

NORTH, BARE = Prompt(plain="Orlen lies north.\nWhere?"), Prompt(plain="Where?")
ASKED = [Contrast(NORTH, BARE, text, alpha) for text in ("north", " no") for alpha in (0.5, 2.0)]


def respond(generator, requests, store=None):
    with LabelStore(store) as opened:
        return Responder(generator, opened).respond(requests)


def test_contrasts_are_scored_once_and_kept(tiny, tmp_path):
    counted = Counted(tiny)
    responses = respond(counted, [*ASKED, ASKED[0], Force(NORTH, "north")], tmp_path / "s.sqlite")
    assert responses[ASKED[0]] == tiny.contrasted(NORTH, BARE, "north", 0.5)
    assert len(counted.computed) == 5
    again = respond(counted, ASKED, tmp_path / "s.sqlite")
    assert len(counted.computed) == 5
    assert again == {request: responses[request] for request in ASKED}
    assert len({response.logprobs for response in responses.values()}) == 5


def test_everything_is_in_the_key():
    first = ASKED[0]
    changes = [{"prompt": BARE}, {"other": NORTH}, {"text": "x"}, {"alpha": 0.25}, {"other": Prompt(plain="Where")}]
    keys = {ResponseKeys("g").contrasted(replace(first, **change)) for change in [{}, *changes]}
    assert len(keys) == 1 + len(changes)


def test_a_backend_without_the_ability_fails_these_alone(tiny):
    class Server:
        def __init__(self, inner):
            self.identity, self.counts, self.run = inner.identity, inner.counts, inner.run

    server = Server(tiny)
    assert not isinstance(server, ContrastScorer)
    responses = respond(server, [ASKED[0], Force(NORTH, "north")])
    assert isinstance(responses[ASKED[0]], Failure) and "cannot contrast" in responses[ASKED[0]].reason
    assert responses[Force(NORTH, "north")].logprobs


def test_a_refused_contrast_fails_alone():
    long = Contrast(Prompt(plain="x" * 100), BARE, "x")
    responses = respond(TinyNumpy(window=60), [*ASKED, long])
    assert [request for request, response in responses.items() if isinstance(response, Failure)] == [long]


def test_a_backend_that_loses_a_contrast_is_an_error(tiny):
    class Losing(Counted):
        def contrast(self, *lists, alpha):
            return super().contrast(*lists, alpha=alpha)[1:]

    with pytest.raises(RuntimeError, match="one scored text a contrast"):
        respond(Losing(tiny), ASKED)
