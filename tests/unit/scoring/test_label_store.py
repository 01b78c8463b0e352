import sqlite3
import subprocess
import sys
import textwrap
import time
from math import inf, nan

import pytest

from utilitune.errors import DataError
from utilitune.generator.protocol import Continuation, Generation, Prompt
from utilitune.scoring import LabelStore
from utilitune.scoring.response_codec import decode, encode
from utilitune.scoring.response_key import ResponseKeys


def response(number=-0.1, text="a\u2028b\x85 é"):
    return Continuation(text, ("a", "b"), (3, 4), (number, 1 / 3), (0.1, 1e-300))


FULL = Generation("x", ("x",), (5,), (-1e-17,), None, ((0.1, 0.3),), (0.97,), truncated=True, finish="stop")


@pytest.mark.parametrize("given", [response(), FULL], ids=["continuation", "generation"])
def test_what_comes_back_is_what_went_in(given, tmp_path):
    assert decode(encode(given)) == given
    with LabelStore(tmp_path / "deep" / "s.sqlite") as store:
        store.put_many({b"k": given})
    with LabelStore(tmp_path / "deep" / "s.sqlite") as store:
        assert store.get_many([b"k"]) == {b"k": given}


def test_numpy_numbers_become_plain_ones():
    import numpy as np

    given = Continuation("x", ("x",), (np.int64(3),), (np.float32(-0.5),), (np.float64(0.25),))
    back = decode(encode(given))
    assert back == given and type(back.logprobs[0]) is float and type(back.token_ids[0]) is int


@pytest.mark.parametrize(
    "bad",
    [
        response(nan),
        response(-inf),
        Continuation("", (), (), (), ()),
        Continuation("x", ("x",), (1,), (-1.0,), (nan,)),
        Continuation("x", ("x",), (1,), (-1.0,), None, ((0.0, inf),), (0.5,)),
    ],
)
def test_failed_empty_and_non_finite_responses_are_never_kept(bad):
    with LabelStore() as store:
        store.put_many({b"bad": bad, b"good": response()})
        assert store.stats()["responses"] == 1
        assert list(store.get_many([b"bad", b"good"])) == [b"good"]
        assert (store.hits, store.misses) == (1, 1)


def test_the_first_writer_wins_and_the_second_learns_it(tmp_path):
    with LabelStore(tmp_path / "s") as one, LabelStore(tmp_path / "s") as two:
        assert one.put_many({b"k": response(-1.0)})[b"k"].logprobs[0] == -1.0
        assert two.put_many({b"k": response(-2.0), b"l": response(-3.0)})[b"k"].logprobs[0] == -1.0
        assert one.get_many([b"l"])[b"l"].logprobs[0] == -3.0


def test_many_keys_and_repeats():
    keys = [str(number).encode() for number in range(5000)]
    with LabelStore() as store:
        store.put_many(dict.fromkeys(keys, response()))
        assert len(store.get_many(keys + keys)) == 5000
        assert store.stats()["hits"] == 5000


def test_a_file_that_is_no_store_is_left_alone(tmp_path):
    text = tmp_path / "labels.jsonl"
    text.write_text("{}\n" * 1000)
    with pytest.raises(DataError, match="cannot be used as a label store"):
        LabelStore(text)
    assert text.read_text() == "{}\n" * 1000
    other = tmp_path / "other.sqlite"
    db = sqlite3.connect(other)
    db.execute("CREATE TABLE mine (x)")
    db.commit()
    db.close()
    with pytest.raises(DataError, match="expected a label store of format 2"):
        LabelStore(other)


def test_every_part_of_a_request_is_in_the_key():
    prompt = Prompt((("user", "q"),), "p", ("t",))
    keys = ResponseKeys("a" * 64)
    base = keys.greedy(prompt, 16, ("\n",))
    others = [
        ResponseKeys("b" * 64).greedy(prompt, 16, ("\n",)),
        keys.greedy(Prompt((("system", "q"),), "p", ("t",)), 16, ("\n",)),
        keys.greedy(Prompt((("user", "q "),), "p", ("t",)), 16, ("\n",)),
        keys.greedy(Prompt((("user", "q"),), "p2", ("t",)), 16, ("\n",)),
        keys.greedy(Prompt((("user", "q"),), "p", ()), 16, ("\n",)),
        keys.greedy(prompt, 17, ("\n",)),
        keys.greedy(prompt, 16, ()),
        keys.scored(prompt, "x"),
        keys.scored(prompt, (1, 2)),
        keys.scored(prompt, (12,)),
        keys.scored(prompt, "[1, 2]"),
    ]
    assert len({base, *others}) == 1 + len(others)
    assert keys.greedy(Prompt((("user", "q"),), "p", ("t",)), 16, ["\n"]) == base


WRITER = textwrap.dedent(
    """
    import sys
    from utilitune.generator.protocol import Continuation
    from utilitune.scoring import LabelStore
    path, offset = sys.argv[1], int(sys.argv[2])
    big = "x" * 200_000
    with LabelStore(path) as store:
        for step in range(25):
            keys = [f"{(offset + step * 2 + n) % 60}".encode() for n in range(6)]
            store.put_many({key: Continuation(big + key.decode(), ("t",), (1,), (-1.0,), (1.0,)) for key in keys})
            assert len(store.get_many(keys)) == 6
    """
)


def test_two_processes_write_one_store(tmp_path):
    path = tmp_path / "shared.sqlite"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, offset]) for offset in ("0", "5")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    with LabelStore(path) as store:
        keys = [str(number).encode() for number in range(60)]
        found = store.get_many(keys)
        assert all(found[key].text.endswith(key.decode()) and len(found[key].text) > 200_000 for key in found)
        assert len(found) == store.stats()["responses"] >= 54


def test_speed_is_no_bottleneck(tmp_path):
    """A model scores some tens of items a second; the store must be far above that even on a slow disk."""
    given = Continuation("x" * 60, (" tok",) * 16, tuple(range(16)), (-0.123456789,) * 16, (1.23456789,) * 16)
    with LabelStore(tmp_path / "s") as store:
        start = time.perf_counter()
        for chunk in range(10):
            store.put_many({f"{chunk}/{n}".encode(): given for n in range(300)})
        written = time.perf_counter()
        found = sum(len(store.get_many([f"{chunk}/{n}".encode() for n in range(300)])) for chunk in range(10))
        read = time.perf_counter()
    assert found == 3000
    print(f"{3000 / (written - start):.0f} inserts/s, {3000 / (read - written):.0f} look-ups/s")
    assert written - start < 10 and read - written < 10


OPENING = textwrap.dedent(
    """
    import sys, time
    from utilitune.scoring.store import LabelStore
    start = float(sys.argv[2])
    for number in range(60):
        while time.time() < start + number * 0.03:
            pass
        LabelStore(f"{sys.argv[1]}/{number}.sqlite").close()
    """
)


def test_processes_may_create_one_store_at_the_same_moment(tmp_path):
    command = [sys.executable, "-c", OPENING, str(tmp_path), str(time.time() + 2)]
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
