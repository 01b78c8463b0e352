"""``label`` and ``labels rescore``: what they write over, what they count, how they end."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from utilitune.cli import app, main
from utilitune.cli.out import check_file
from utilitune.errors import ConfigError, DataError, ThresholdError
from utilitune.records.label import Labels, UtilityLabel
from utilitune.records.labels import read_labels, write_labels
from utilitune.scoring import make_utility

TOKENS = {"text": "ab", "tokens": ["a", "b"], "ids": [1, 2], "entropies": [0.5, 0.1], "truncated": False}
GOOD = {
    "grounded": {**TOKENS, "logprobs": [-0.5, -0.5], "finish": "stop"},
    "grounded_under_bare": {**TOKENS, "logprobs": [-1.0, -2.0]},
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    (data / "corpus.jsonl").write_text('{"_id": "p", "text": "A cat."}\n')
    (data / "queries.jsonl").write_text('{"_id": "q", "text": "What?"}\n')
    (tmp_path / "r.trec").write_text("q Q0 p 1 1.0 x\n")
    return tmp_path


def labels_file(evidence, path="l.jsonl"):
    parameters = dict(make_utility("information-gain").parameters)
    manifest = {
        "generator": {"model": "m"},
        "label_sets": {"information-gain@1": {"utility": "information-gain", "parameters": parameters}},
    }
    rows = [UtilityLabel("q", ("p",), 1.0, "ok", "information-gain@1", evidence)]
    write_labels(path, Labels(rows, manifest))


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def rescored(*words):
    return run("labels", "rescore", "l.jsonl", "-u", "information-gain", "--out", "o.jsonl", *words)


def test_label_never_writes_over_what_it_reads(here):
    for out in ("r.trec", "data/corpus.jsonl", "data/queries.jsonl"):
        before = (here / out).read_bytes()
        done = run("label", "data", "--run", "r.trec", "--out", out, "-g", "./no-such-model")
        assert isinstance(done.exception, ConfigError) and "is what is read" in str(done.exception)
        assert (here / out).read_bytes() == before


def test_rescoring_never_writes_over_labels_or_their_manifest():
    labels_file(GOOD)
    for out in ("l.jsonl", "l.manifest.json", "l.parquet", "l.jsonl.gz"):
        done = run("labels", "rescore", "l.jsonl", "-u", "information-gain", "--out", out)
        assert isinstance(done.exception, ConfigError) and "give another name" in str(done.exception)
    assert read_labels("l.jsonl").manifest["generator"] == {"model": "m"}


def test_rescoring_computes_from_the_evidence():
    labels_file(GOOD)
    assert rescored().exit_code == 0
    (row,) = read_labels("o.jsonl")
    assert row.utility == pytest.approx((-0.5 - 0.5 + 1.0 + 2.0) / 2)


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("logprobs", None, "logprobs None; expected a list"),
        ("logprobs", [-1.0], "2 tokens, 2 ids, 1 logprobs, 2 entropies"),
        ("logprobs", ["a", "b"], "expected a list of float"),
        ("entropies", "ab", "expected a list of float"),
        ("entropies", [0.5], "1 entropies"),
        ("ids", ["a", "b"], "expected a list of int"),
        ("tokens", [], "0 tokens"),
        ("text", 5, "text 5"),
        ("truncated", "yes", "truncated 'yes'"),
        ("finish", "maybe", "finish 'maybe'"),
    ],
)
def test_damaged_evidence_is_refused_and_no_number_made_of_it(here, part, value, said):
    labels_file({**GOOD, "grounded": {**GOOD["grounded"], part: value}})
    done = rescored()
    assert isinstance(done.exception, DataError), done.exception
    assert "the evidence of query 'q' under information-gain@1 is damaged: grounded: " in str(done.exception)
    assert said in str(done.exception)
    assert not (here / "o.jsonl").exists()


def test_a_number_that_was_not_finite_gives_an_invalid_row_and_too_many_the_exit_code():
    labels_file({**GOOD, "grounded": {**GOOD["grounded"], "logprobs": [None, -1.0]}})
    done = rescored()
    assert isinstance(done.exception, ThresholdError)
    (row,) = read_labels("o.jsonl")
    assert (row.status, row.utility) == ("invalid", None)
    assert rescored("--max-failed", 1).exit_code == 0


def test_labels_without_what_rescoring_needs(here):
    labels_file(GOOD)
    done = run("labels", "rescore", "l.jsonl", "-u", "llm-relevance", "--out", "o.jsonl")
    assert "does not read the generator's own answers" in str(done.exception)
    manifest = json.loads((here / "l.manifest.json").read_text())
    manifest["manifest"]["label_sets"]["information-gain@1"]["parameters"] = None
    (here / "l.manifest.json").write_text(json.dumps(manifest))
    assert "no utility of these labels does" in str(rescored().exception)
    (here / "l.jsonl").write_text("")
    assert "there are no labels" in str(rescored().exception)


def test_a_device_or_a_pipe_is_no_file_to_write(here):
    os.mkfifo(here / "pipe")
    for out in (Path("/dev/null"), here / "pipe"):
        with pytest.raises(ConfigError, match="is a device"):
            check_file(out)


def test_where_nothing_can_be_written_is_found_before_any_work(here, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != here / "data")
    with pytest.raises(ConfigError, match="data cannot be written into"):
        check_file(here / "data" / "new" / "labels.jsonl")
    check_file(here / "labels.jsonl")


def test_an_error_of_the_system_has_no_traceback(monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device", "x.jsonl")

    monkeypatch.setattr("utilitune.cli.app", full)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: x.jsonl: No space left on device\n"


def test_ctrl_c_says_that_what_is_finished_is_kept(here, monkeypatch, capsys):
    (here / "own.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.setattr("sys.argv", ["utilitune", "utilities", "own.py:W"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert "what is finished is kept" in capsys.readouterr().err
