"""Labelling with a server that fails now and then, and for one passage always: no row is lost, shifted or made up."""

import threading

import pytest
from fake_server import FakeServer, Served

from utilitune.generator import load_generator
from utilitune.generator.server_error import ServerUnusable
from utilitune.generator.transformers_generator import TransformersGenerator
from utilitune.records.dataset import Dataset
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Run
from utilitune.scoring import label

SECRET = "sk-very-secret-0123"
TOWNS = ["Velm", "Brannoc", "Karsk", "Merrin", "Fenn", "Ull"]
PASSAGES = [Passage(f"p{n}", f"the river {town[::-1]} runs past {town}") for n, town in enumerate(TOWNS)]
QUERIES = [Query(f"q{n}", f"where is {TOWNS[n % 6]}, year {n}?") for n in range(10)]
WORLD = Dataset(PASSAGES, QUERIES, name="towns")
RUN = Run(
    {query.id: [(PASSAGES[(n + step) % 6].id, 1 / (1 + step)) for step in range(3)] for n, query in enumerate(QUERIES)}
)
FEW = WORLD.subset(QUERIES[:2])


class Moody:
    """Every third call 429, one 500, one body cut short, and a 400 for every prompt with the word ``bad``."""

    def __init__(self, served, bad):
        self.served, self.bad, self.calls, self.lock = served, bad, 0, threading.Lock()
        self.moody = False

    def __call__(self, path, body):
        with self.lock:
            self.calls += self.moody
            call = self.calls
        if self.moody:
            if call % 3 == 0:
                return 429, {"error": "slow down"}, {"Retry-After": "0"}
            if call == 4:
                return 500, b"oops"
            if call == 5:
                return 200, b'{"choi', {"Content-Length": "900"}
            if self.bad and self.bad in self.served.tokenizer.decode(body["prompt"]):
                return 400, {"error": {"message": f"cannot read this; the key was {SECRET}"}}
        return self.served(path, body)


@pytest.fixture
def world(tiny, tokenizers_of, tmp_path, monkeypatch):
    model, tokenizer = tiny("llama"), tokenizers_of()
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    moody = Moody(Served(model, tokenizer), "runs past Karsk")
    server = FakeServer(moody)
    spec = {"backend": "openai", "model": "tiny", "base_url": server.url, "tokenizer": tmp_path / "tokenizer"}
    there = load_generator({**spec, "backoff": 0.01, "attempts": 12, "equal_failures": 25})
    moody.moody = True
    yield moody, server, there, TransformersGenerator(model, tokenizer)
    server.close()


def test_every_row_comes_out_and_failed_ones_are_asked_again_on_resume(world, tmp_path):
    moody, server, there, here = world
    settings = {"utilities": ["question-gain"], "k": 3, "store": tmp_path / "labels.sqlite", "max_failed": 0.9}
    first = label(WORLD, RUN, generator=there, **settings)
    exact = label(WORLD, RUN, ["question-gain"], here, k=3)
    names = [(row.query_id, row.passage_ids) for row in exact.rows]
    assert [(row.query_id, row.passage_ids) for row in first.rows] == names
    for row, true in zip(first.rows, exact.rows, strict=True):
        assert row.status == ("failed" if row.passage_ids == ("p2",) else "ok")
        if row.status == "ok":
            assert row.utility == pytest.approx(true.utility, abs=1e-4)
        else:
            assert row.utility is None and "HTTP 400: cannot read this" in str(row.evidence)
    assert first.manifest["generator_counts"]["retries"] > 3
    assert server.most <= 8

    moody.bad, before = "", len(server.requests)
    again = label(WORLD, RUN, generator=there, **settings)
    assert [row.utility for row in again.rows] == pytest.approx([row.utility for row in exact.rows], abs=1e-4)
    assert {row.status for row in again.rows} == {"ok"}
    asked = [moody.served.tokenizer.decode(body["prompt"]) for _, body in server.requests[before:]]
    assert asked and all("runs past Karsk" in each for each in asked)


def test_the_key_is_in_no_row_no_manifest_no_store_and_no_notice(world, tmp_path, capsys):
    _, server, there, _ = world
    labels = label(WORLD, RUN, ["question-gain"], there, k=3, store=tmp_path / "labels.sqlite", max_failed=0.9)
    assert server.headers[-1]["Authorization"] == f"Bearer {SECRET}"
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("labels.sqlite*"))
    assert SECRET.encode() not in stored
    captured = capsys.readouterr()
    assert SECRET not in f"{labels} {there.identity} {there.counts} {captured.out} {captured.err}"


def test_a_server_that_refuses_everything_ends_the_run_soon(world):
    moody, server, there, _ = world
    moody.bad, before = "?", len(server.requests)
    with pytest.raises(ServerUnusable, match="failed alike"):
        label(WORLD, RUN, ["question-gain"], there, k=3)
    refused = [body for _, body in server.requests[before:]]
    assert len({tuple(body["prompt"]) for body in refused}) <= 25 + 8


def test_utilities_of_entropies_fail_with_the_way_out(world):
    moody, _, there, _ = world
    moody.moody = False
    labels = label(FEW, RUN, ["grogu"], there, k=1, max_failed=1.0)
    assert {row.status for row in labels.rows} == {"failed"}
    assert "no exact entropies" in str(labels.rows[0].evidence)


@pytest.mark.parametrize("utility", ["information-gain", "abstention"])
def test_utilities_of_logprobs_are_those_of_the_model_in_this_process(world, utility):
    moody, _, there, here = world
    moody.bad = ""
    moody.moody = False
    ours, exact = (label(FEW, RUN, [utility], each, k=2) for each in (there, here))
    assert [row.status for row in ours.rows] == [row.status for row in exact.rows]
    assert [row.utility for row in ours.rows] == pytest.approx([row.utility for row in exact.rows], abs=1e-3)
