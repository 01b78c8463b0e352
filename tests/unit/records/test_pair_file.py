"""Preference pair and answer files."""

import json

import pytest

from utilitune.errors import DataError
from utilitune.records import Answer, PreferencePair, read_answers, read_pairs, write_answers, write_pairs


def message(role, content):
    return {"role": role, "content": content}


PAIR = PreferencePair(
    query_id="c_2",
    prompt=(message("system", "s"), message("user", "u\u2028")),
    chosen=(message("assistant", "good"),),
    rejected=(message("assistant", ""),),
    chosen_utility=0.75,
    rejected_utility=-0.5,
    chosen_passages=("d1", "d2"),
)


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.jsonl.gz", "pairs.parquet"])
def test_round_trip(tmp_path, name):
    assert write_pairs(tmp_path / name, iter([PAIR, PAIR])) == 2
    assert read_pairs(tmp_path / name) == [PAIR, PAIR]


def test_row_is_trl_plus_provenance(tmp_path):
    write_pairs(tmp_path / "p.jsonl", [PAIR])
    row = json.loads((tmp_path / "p.jsonl").read_text(encoding="utf-8"))
    assert row == {
        "prompt": [message("system", "s"), message("user", "u\u2028")],
        "chosen": [message("assistant", "good")],
        "rejected": [message("assistant", "")],
        "query_id": "c_2",
        "chosen_utility": 0.75,
        "rejected_utility": -0.5,
        "margin": 1.25,
        "chosen_passages": ["d1", "d2"],
        "rejected_passages": [],
    }


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rejected": [message("assistant", "good")]}, "are the same"),
        ({"rejected_utility": 0.75}, "expected the chosen side to be worth more"),
        ({"chosen_utility": None}, "'chosen_utility' is missing"),
        ({"prompt": "text"}, "expected a list of"),
        ({"prompt": ["text"]}, r"'prompt\[0\]' is"),
        ({"prompt": [message("robot", "x")]}, "expected one of 'user', 'assistant', 'system'"),
        ({"chosen": [message("assistant", 3)]}, r"'chosen\[0\].content' is 3"),
    ],
)
def test_bad_rows(tmp_path, change, says):
    path = tmp_path / "p.jsonl"
    write_pairs(path, [PAIR])
    row = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, **change}) + "\n")
    with pytest.raises(DataError, match=says) as caught:
        read_pairs(path)
    assert f"{path}:2: " in str(caught.value)


ANSWERS = [Answer("q1", ("d1",), "Oslo", False, -0.25), Answer("q2", (), "", True, None, cut=True)]


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.jsonl.gz", "answers.parquet"])
def test_answers_round_trip(tmp_path, name):
    write_answers(tmp_path / name, ANSWERS)
    assert read_answers(tmp_path / name) == ANSWERS


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"answer": 3}, "expected a string"),
        ({"abstained": "no"}, "true or false"),
        ({"answer": None}, "is missing"),
        ({"cut": 1}, "true or false"),
    ],
)
def test_bad_answers(tmp_path, change, says):
    path = tmp_path / "a.jsonl"
    row = {"query_id": "q", "passage_ids": [], "answer": "", "abstained": False, "logprob_mean": None}
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, **change}) + "\n")
    with pytest.raises(DataError, match=says) as caught:
        read_answers(path)
    assert f"{path}:2: " in str(caught.value)
