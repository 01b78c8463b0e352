"""Two processes on one store: nothing twice, nothing lost, nobody waits for the dead."""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tiny_generator import Counted

import utilitune.scoring.claims as claims_module
from utilitune.scoring import LabelStore, label
from utilitune.scoring.claims import Claims, chunk_id

SCRIPT = Path(__file__).parent / "labelling_process.py"


@pytest.fixture
def two(tmp_path):
    with LabelStore(tmp_path / "s") as one, LabelStore(tmp_path / "s") as other:
        yield Claims(one), Claims(other)


def test_a_claim_is_held_until_it_is_released(two):
    one, other = two
    assert one.take(b"a") and one.take(b"a") and not other.take(b"a") and other.take(b"b")
    other.release(b"a")
    assert not other.take(b"a"), "only the owner can release"
    one.release(b"a")
    assert other.take(b"a")


def test_a_claim_runs_out(two, monkeypatch):
    one, other = two
    assert one.take(b"a") and not other.take(b"a")
    later = time.time() + 601
    monkeypatch.setattr(claims_module.time, "time", lambda: later)
    assert other.take(b"a")


def test_a_claim_of_a_dead_process_holds_nobody_up(two):
    one, other = two
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    host, _, tail = one.owner.rsplit(":", 2)
    one.owner = f"{host}:{child.pid}:{tail}"
    assert one.take(b"a") and other.take(b"a")
    one.owner = f"elsewhere:{child.pid}:{tail}"
    assert one.take(b"b") and not other.take(b"b"), "of another machine only the lease is known"


def test_what_others_have_comes_last_and_nothing_is_left_out(two):
    one, other = two
    chunks, ids = list("abcd"), [chunk_id([each]) for each in "abcd"]
    assert other.take(ids[0]) and other.take(ids[2])
    seen = []
    for place, chunk in one.in_turn(chunks, ids):
        seen.append(chunk)
        assert chunks[place] == chunk and not other.take(ids[place]), "claimed while it is worked on"
        if len(seen) == 2:
            other.release(ids[0])
            other.release(ids[2])
    assert seen == ["b", "d", "a", "c"]
    assert all(other.take(each) for each in ids), "all given up"


def test_an_error_gives_the_chunk_up(two):
    one, other = two
    turns = one.in_turn(["x"], [b"x"])
    next(turns)
    turns.close()
    assert other.take(b"x")


def test_a_container_that_started_again_does_not_wait_for_itself(two):
    one, other = two
    host, pid, _ = one.owner.rsplit(":", 2)
    one.owner = f"{host}:{pid}:00000000-00000000"
    assert one.take(b"a") and other.take(b"a")


def test_an_interrupted_call_leaves_no_claim_behind(world, tiny, tmp_path):
    class Interrupted(Counted):
        def run(self, tasks):
            if len(self.calls) == 2:
                raise KeyboardInterrupt
            return super().run(tasks)

    with pytest.raises(KeyboardInterrupt):
        label(*world, ["abstention"], Interrupted(tiny), store=tmp_path / "s", chunk_items=3)
    with LabelStore(tmp_path / "s") as store:
        assert store.db.execute("SELECT count(*) FROM claims").fetchone() == (0,)
        assert store.stats()["responses"] > 0
    assert len(label(*world, ["abstention"], tiny, store=tmp_path / "s", chunk_items=3)) == 18


def test_a_store_in_memory_claims_nothing():
    with LabelStore() as store:
        assert [chunk for _, chunk in Claims(store).in_turn("ab", [b"a", b"a"])] == ["a", "b"]


def test_parts_do_not_run_together():
    assert chunk_id(["a", "bc"]) != chunk_id(["ab", "c"]) and len(chunk_id(["\ud83d"])) == 16


def test_two_processes_share_the_work(tmp_path):
    """Both start before either is done; every response is computed by one of them alone."""
    outs = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    command = [sys.executable, SCRIPT]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    both = [
        subprocess.Popen(
            [*command, out, tmp_path / "s.sqlite", out.with_suffix(".log"), "0.4"],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for out in outs
    ]
    said = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert outs[0].read_bytes() == outs[1].read_bytes()
    logs = [out.with_suffix(".log").read_text().splitlines() for out in outs]
    assert all(logs), "both had a part"
    assert max(Counter(logs[0] + logs[1]).values()) == 1
