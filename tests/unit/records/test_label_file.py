"""Label files and their manifests."""

import json

import numpy as np
import pytest

from utilitune.errors import DataError
from utilitune.records import Labels, UtilityLabel, read_json, read_labels, write_labels
from utilitune.records.labels import manifest_path

SET = "information-gain@0123abcd"
ROWS = [
    UtilityLabel("q1", ("d1",), 0.1 + 0.2, "ok", SET, {"answer": "x\u2028", "logprobs": [-0.5, -1.0], "flag": True}),
    UtilityLabel("q1", ("d1", "d2"), np.float32(0.5), "ok", SET, {"entropies": np.array([0.5, 0.25])}),
    UtilityLabel("q1", ("d3",), None, "failed", SET, {"reason": "timeout"}),
    UtilityLabel("q2", (), None, "skipped", SET),
]


@pytest.mark.parametrize("name", ["labels.jsonl", "labels.jsonl.gz", "labels.parquet"])
def test_round_trip_with_manifest(tmp_path, name, capsys):
    write_labels(tmp_path / name, Labels(ROWS, {"command": "label", "seed": 1}))
    read = read_labels(tmp_path / name)
    assert read.rows == ROWS
    assert [dict(row.evidence) for row in read] == [
        {"answer": "x\u2028", "logprobs": [-0.5, -1.0], "flag": True},
        {"entropies": [0.5, 0.25]},
        {"reason": "timeout"},
        {},
    ]
    assert read.manifest["command"] == "label"
    assert read.manifest["rows"] == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "labels.manifest.json"])
    assert capsys.readouterr().err == ""
    assert read.table() == {"q1": {"d1": 0.1 + 0.2}}


def test_row_and_side_file_are_as_documented(tmp_path):
    write_labels(tmp_path / "labels.jsonl", Labels(ROWS[:1], {"a": 1}))
    row = json.loads((tmp_path / "labels.jsonl").read_text(encoding="utf-8"))
    assert list(row) == ["query_id", "passage_ids", "utility", "status", "evidence", "label_set"]
    assert list(read_json(tmp_path / "labels.manifest.json")) == ["manifest"]


@pytest.mark.parametrize(
    ("name", "side"),
    [("labels.jsonl", "labels"), ("a.b.jsonl.gz", "a.b"), ("x.parquet", "x"), ("plain", "plain"), ("y.json", "y")],
)
def test_side_file_name(tmp_path, name, side):
    assert manifest_path(tmp_path / name) == tmp_path / f"{side}.manifest.json"


def test_manifest_of_other_labels_is_warned_about(tmp_path, capsys):
    path = tmp_path / "labels.jsonl"
    write_labels(path, Labels(ROWS))
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
    assert len(read_labels(path)) == 3
    assert "written with other labels" in capsys.readouterr().err
    manifest_path(path).unlink()
    assert read_labels(path).manifest == {}


def test_numbers_that_are_not_finite_cost_the_number_not_the_file(tmp_path, capsys):
    rows = [
        UtilityLabel("q", ("a",), float("nan"), "ok", SET),
        UtilityLabel("q", ("b",), np.float32("inf"), "ok", SET),
        UtilityLabel("q", ("c",), 0.9, "ok", SET, {"logprobs": [-float("inf"), -1.0], "n": {"m": np.float32("nan")}}),
    ]
    write_labels(tmp_path / "l.jsonl", Labels(rows, {"counts": {"ok": 3}}))
    read = read_labels(tmp_path / "l.jsonl")
    assert [(row.status, row.utility) for row in read] == [("invalid", None), ("invalid", None), ("ok", 0.9)]
    assert read[2].evidence == {"logprobs": [None, -1.0], "n": {"m": None}}
    assert read.manifest["counts"] == {
        "ok": 3,
        "utilities were not finite: status invalid": 2,
        "numbers in the evidence were not finite: null": 2,
    }
    assert capsys.readouterr().err.count("warning") == 2


GOOD = {"query_id": "q", "passage_ids": ["d"], "utility": 1, "status": "ok", "label_set": SET}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"utility": None}, "a number goes with 'ok'"),
        ({"status": "failed"}, "only with 'ok'"),
        ({"status": "fine"}, "expected one of ok, failed, invalid, skipped"),
        ({"utility": "0.5"}, "expected a number"),
        ({"utility": True}, "expected a number"),
        ({"passage_ids": "d"}, "expected a list of ids"),
        ({"passage_ids": [1.5]}, "expected a string"),
        ({"query_id": ""}, "is empty"),
        ({"label_set": None}, "'label_set' is missing"),
        ({"evidence": [1]}, "expected an object"),
    ],
)
def test_bad_rows(tmp_path, change, says):
    path = tmp_path / "l.jsonl"
    rows = [GOOD, {**GOOD, **change}, GOOD, {}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError) as caught:
        read_labels(path)
    assert says in str(caught.value)
    assert f"{path}:2: " in str(caught.value)
    assert f"{path}:4: " in str(caught.value)
    assert "2 problems" in str(caught.value)


def test_number_ids_become_strings(tmp_path):
    path = tmp_path / "l.jsonl"
    path.write_text(json.dumps({**GOOD, "query_id": 7, "passage_ids": [8, "007"]}) + "\n")
    assert read_labels(path)[0] == UtilityLabel("7", ("8", "007"), 1.0, "ok", SET)


def test_repeated_rows_merge_and_contradictions_are_refused(tmp_path, capsys):
    path = tmp_path / "l.jsonl"
    other_set = {**GOOD, "label_set": "abstention@0123abcd", "utility": 2}
    path.write_text("".join(json.dumps(row) + "\n" for row in [GOOD, other_set, GOOD]))
    assert [row.utility for row in read_labels(path)] == [1.0, 2.0]
    assert "1 repeated row(s) merged" in capsys.readouterr().err
    failed = {**GOOD, "utility": None, "status": "failed"}
    path.write_text("".join(json.dumps(row) + "\n" for row in [GOOD, {**GOOD, "utility": 3}, other_set, failed]))
    with pytest.raises(DataError) as caught:
        read_labels(path)
    assert f"{path}:2: (q, d) under {SET}: ok 1.0 on line 1, ok 3.0 here" in str(caught.value)
    assert f"{path}:4: " in str(caught.value)
