"""``utilitune study signal``: a random model end to end, a utility of one's own, options looked at before any work."""

import json
import os

import pytest
from typer.testing import CliRunner

os.environ.setdefault("OMP_NUM_THREADS", "1")

from utilitune.cli import app
from utilitune.errors import ConfigError, DataError, ThresholdError

TOWNS = ["Orlen", "Vastra", "Quill", "Meru", "Tolvik", "Brasca", "Iden", "Narrow"]
OWN = """
from utilitune.scoring import Value


class Words:
    name, needs_answers, parameters = "words", False, {}

    def requests(self, query, passages):
        return {}

    def value(self, query, passages, responses):
        if "Meru" in passages[0].text:
            raise ValueError("no number for Meru")
        return Value(float(len(set(query.text.split()) & set(passages[0].text.split()))))
"""


def write_data(folder, judged=True):
    folder.mkdir()
    corpus = [{"_id": f"p{i}", "text": f"The town of {town} is on the river R{i}."} for i, town in enumerate(TOWNS)]
    queries = [
        {
            "_id": f"q{i}",
            "text": f"On which river is {town} ?",
            "answers": [f"R{i}"],
            "split": "test" if i < 3 else "train",
        }
        for i, town in enumerate(TOWNS)
    ]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if judged:
        lines = "".join(f"q{i}\tp{i}\t1\n" for i in range(len(TOWNS)))
        (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UTILITUNE_CACHE", str(tmp_path / "cache"))
    write_data(tmp_path / "data")
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


def study(*words):
    return CliRunner().invoke(app, ["study", "signal", "data", "--out", "out", *map(str, words)])


def read(name):
    return json.loads((name / "signal.json").read_text())


def test_end_to_end_with_a_random_model(here, model):
    words = ("-g", model, "-u", "information-gain", "--utilities", "grogu", "--limit", 3)
    done = study(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "information-gain" in done.stdout
    assert "3 of 8 questions, 18 pairs" in done.stdout
    assert "s a pair, for all utilities and the answers together" in done.stdout
    names = ("pairs.csv", "responses.sqlite", "signal.json", "signal.svg", "table.md", "values.svg")
    assert sorted(path.name for path in (here / "out").iterdir()) == sorted(names)
    told = read(here / "out")
    assert [each["name"] for each in told["utilities"]] == ["information-gain", "grogu:mean-entropy"]
    assert all(each["n"] == 18 and each["hard"]["pairs"] == 12 for each in told["utilities"])
    assert told["manifest"]["generator"]["model"] == str(model)
    again = study(*words)
    assert "come from the store" not in again.stdout
    assert "responses came from the store and are not timed" in again.stdout
    assert read(here / "out")["utilities"] == told["utilities"]


def test_a_utility_of_ones_own_that_fails_on_some_rows(here, model):
    words = ("-g", model, "-u", "own.py:Words", "--split", "train")
    assert isinstance(study(*words).exception, ThresholdError)
    done = study(*words, "--max-failed", "0.5")
    assert done.exit_code == 0, done.exception
    (words,) = read(here / "out")["utilities"]
    assert words["hard"]["questions"] == 4, "of five for training, Meru's gold passage has no number"
    assert words["left_out"]["failed"] > 0
    assert words["hard"]["share"] == 1.0, "only the gold passage shares the town's name"
    assert "note: words:" in done.stdout


def test_data_at_fault(here, model):
    (here / "data" / "qrels.tsv").unlink()
    done = study("-g", model, "-u", "own.py:Words")
    assert isinstance(done.exception, DataError)
    assert "no judgements" in str(done.exception)
    assert "qrels.tsv" in str(done.exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--distractors", 0, "--random", 0), "--distractors 0 --random 0"),
        (("--answer-measure", "F1"), "known here: contains, EM"),
        (("--answer-prompt", "nowhere"), "nowhere"),
        (("-u", "gain"), "information-gain"),
        (("--store", "data"), "--store: data is a folder"),
    ],
)
def test_options_are_looked_at_before_the_model_is_loaded(words, said):
    done = study("-g", "./no-such-model", *words)
    assert isinstance(done.exception, ConfigError)
    assert said in str(done.exception)


def test_where_it_writes_is_looked_at_first(here):
    (here / "file").write_text("mine")
    for out, said in (("file", "expected a folder"), ("data", "holds a data set")):
        done = CliRunner().invoke(app, ["study", "signal", "nowhere", "--out", out])
        assert isinstance(done.exception, ConfigError)
        assert said in str(done.exception)
