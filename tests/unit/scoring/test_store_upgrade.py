"""Stores of format 1: a user's labels are money."""

import json
import shutil
import sqlite3
from dataclasses import replace

import pytest
from tiny_generator import Counted, TinyGenerator

from utilitune.errors import DataError
from utilitune.generator.protocol import Continuation, Generation, Prompt
from utilitune.scoring import LabelStore, label
from utilitune.scoring.response_key import ResponseKeys
from utilitune.scoring.store_check import faults

PROMPT = Prompt((("user", "é?"),), "p", ("t",))


def format_1_key(content):
    """The key as format 1 made it: the whole SHA-256 of one JSON list."""
    from hashlib import sha256

    return sha256(json.dumps(content).encode()).digest()


def format_1_row(response):
    row = {
        "text": response.text,
        "tokens": response.tokens,
        "ids": response.token_ids,
        "logprobs": response.logprobs,
    }
    if response.entropies is not None:
        row["entropies"] = response.entropies
    if response.entropy_bounds is not None:
        row["bounds"] = response.entropy_bounds
    if response.covered_mass is not None:
        row["mass"] = response.covered_mass
    if response.truncated:
        row["truncated"] = True
    if isinstance(response, Generation):
        row["finish"] = response.finish
    return json.dumps(row, separators=(",", ":"))


def format_1_store(path, rows):
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE responses (key BLOB PRIMARY KEY, response TEXT)")
    db.execute("PRAGMA user_version=1")
    db.executemany("INSERT INTO responses VALUES (?, ?)", rows)
    db.commit()
    db.close()


def test_a_key_is_still_found_and_the_row_is_still_equal(tmp_path):
    base = ["a" * 64, [["user", "é?"]], "p", ["t"]]
    greedy = Generation("x", ("x",), (5,), (-1e-17,), None, ((0.1, 0.3),), (0.97,), truncated=True, finish="stop")
    scored = Continuation("a\u2028b\x85 é", ("a", "b"), (3, 4), (-0.1, 1 / 3), (0.1, 1e-300))
    path = tmp_path / "s"
    old = {
        format_1_key([*base, "greedy", [16, ["\n"]]]): format_1_row(greedy),
        format_1_key([*base, "ids", [3, 4]]): format_1_row(scored),
    }
    format_1_store(path, old.items())
    keys = ResponseKeys("a" * 64)
    asked = [keys.greedy(PROMPT, 16, ["\n"]), keys.scored(PROMPT, (3, 4)), keys.scored(PROMPT, (3,))]
    for _ in range(2):  # upgraded, then opened again
        with LabelStore(path) as store:
            assert store.get_many(asked) == {asked[0]: greedy, asked[1]: scored}
            assert (store.hits, store.misses) == (2, 1)
            assert faults(store)[0] == {} and faults(store)[1]["unknown generator"] == 2


def test_labels_of_an_old_store_need_no_model(world, tiny, tmp_path):
    specs = ["information-gain,max_new_tokens=3", "abstention"]
    first = label(*world, specs, tiny, k=2, store=tmp_path / "new")
    with LabelStore(tmp_path / "new") as store:
        rows = [(bytes(6) + key, response) for key, response in old_rows(store)]
    format_1_store(tmp_path / "old", [(key[6:], text) for key, text in rows])
    again = Counted(tiny)
    labels = label(*world, specs, again, k=2, store=tmp_path / "old")
    assert again.calls == [] and labels.rows == first.rows
    assert [row.evidence for row in labels] == [row.evidence for row in first]


def test_labels_that_are_computed_anew_say_why(world, tmp_path, capsys):
    """A user who was told that rows stay, and then sees none of them used, must learn what has changed."""
    dataset, run = world
    path, now = tmp_path / "s", TinyGenerator(seed=1)
    ask = {"store": path, "k": 1}
    now.identity = replace(now.identity, options={"numerics": "1"})
    label(dataset.subset(dataset.queries[:3]), run, ["abstention"], now, **ask)
    capsys.readouterr()
    label(dataset.subset(dataset.queries[3:]), run, ["abstention"], now, **ask)
    assert "anew" not in capsys.readouterr().err, "other questions are no change"
    now.identity = replace(now.identity, options={"numerics": "2"}, max_length=2048)
    label(*world, ["abstention"], now, **ask)
    said = capsys.readouterr().err
    assert "computed anew; the store knows" in said and said.count("computed anew") == 1
    assert "max_length (4096 there, 2048 now), options.numerics ('1' there, '2' now)" in said
    label(*world, ["abstention"], now, **ask)
    assert "anew" not in capsys.readouterr().err


def test_an_old_store_of_a_generator_that_has_changed_promises_nothing(world, tiny, tmp_path, capsys):
    format_1_store(tmp_path / "s", [(b"a" * 32, format_1_row(Continuation("x", ("x",), (1,), (-1.0,), (1.0,))))])
    label(*world, ["abstention"], tiny, k=1, store=tmp_path / "s")
    said = capsys.readouterr().err
    assert "its rows stay, each for its own generator" in said
    assert "computed anew; rows of format 1 do not say whose they are" in said


def old_rows(store):
    """Rows as format 1 would hold them; of the 32 bytes of its keys the first ten are known."""
    from utilitune.scoring.response_codec import decode

    for key, data in store.db.execute("SELECT key, response FROM responses"):
        yield key[6:] + bytes(22), format_1_row(decode(data))


def test_unreadable_rows_are_left_out_and_said(tmp_path, capsys):
    good = Continuation("x", ("x",), (1,), (-1.0,), (1.0,))
    nan = replace(good, logprobs=(float("nan"),))
    format_1_store(
        tmp_path / "s", [(b"a" * 32, format_1_row(good)), (b"b" * 32, "{torn"), (b"c" * 32, format_1_row(nan))]
    )
    with LabelStore(tmp_path / "s") as store:
        assert store.stats()["responses"] == 1
    assert "2 row(s) of format 1 could not be read" in capsys.readouterr().err


def test_an_upgrade_that_is_interrupted_leaves_the_old_store(tmp_path, monkeypatch):
    import utilitune.scoring.store_file as store_file

    path = tmp_path / "s"
    rows = [(bytes([n]) * 32, format_1_row(Continuation("x", ("x",), (1,), (-1.0,), (1.0,)))) for n in range(9)]
    format_1_store(path, rows)
    met = []

    def stop(text):
        met.append(text)
        if len(met) == 5:
            raise KeyboardInterrupt
        return b"x"

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(store_file, "_recoded", stop)
        LabelStore(path)
    db = sqlite3.connect(path)
    assert db.execute("SELECT * FROM responses ORDER BY key").fetchall() == rows
    assert db.execute("PRAGMA user_version").fetchone() == (1,)
    db.close()
    with LabelStore(path) as store:
        assert store.stats()["responses"] == 9


def test_a_later_format_is_refused_and_left_alone(tmp_path):
    LabelStore(tmp_path / "s").close()
    db = sqlite3.connect(tmp_path / "s")
    db.execute("PRAGMA user_version=3")
    db.close()
    before = (tmp_path / "s").read_bytes()
    with pytest.raises(DataError, match="format 3, expected a label store of format 2 or 1"):
        LabelStore(tmp_path / "s")
    assert (tmp_path / "s").read_bytes() == before
    shutil.copy(tmp_path / "s", tmp_path / "t")
    with pytest.raises(DataError, match="no such file"):
        LabelStore(tmp_path / "nowhere", create=False)
    assert not (tmp_path / "nowhere").exists()
