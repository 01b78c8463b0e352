"""``utilitune study correlation``: a random model end to end, options looked at before any work."""

import json
import os

import pytest
from typer.testing import CliRunner

os.environ.setdefault("OMP_NUM_THREADS", "1")

from utilitune.cli import app
from utilitune.cli.study import _lengths
from utilitune.errors import ConfigError
from utilitune.records import Labels, UtilityLabel, write_labels

TOWNS = ["Orlen", "Vastra", "Quill", "Meru", "Tolvik", "Brasca"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UTILITUNE_CACHE", str(tmp_path / "cache"))
    rows = {
        "corpus": [
            {"_id": f"p{i}", "text": f"The town of {town} is on the river R{i}."} for i, town in enumerate(TOWNS)
        ],
        "queries": [
            {"_id": f"q{i}", "text": f"On which river is the town of {town} ?", "answers": [f"R{i}"]}
            for i, town in enumerate(TOWNS)
        ],
    }
    (tmp_path / "data").mkdir()
    for name, own in rows.items():
        (tmp_path / "data" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    lines = "".join(f"q{i}\tp{i}\t1\n" for i in range(len(TOWNS)))
    (tmp_path / "data" / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    (tmp_path / "mine.trec").write_text("".join(f"q{i} Q0 p{(i + 1) % 6} 1 1.0 mine\n" for i in range(6)))
    return tmp_path


def study(*words):
    return CliRunner().invoke(app, ["study", "correlation", "data", "--out", "out", *map(str, words)])


def test_end_to_end_with_a_random_model(here, model):
    words = ("-g", model, "-r", "bm25", "--retrievers", "other=mine.trec", "-k", "1,2", "--limit", 3)
    words += ("--position", 2, "--ideal", 2, "-u", "question-gain", "--set-utility", "sper,n=2")
    done = study(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "3 of 6 questions, bm25, other, 12 lists" in done.stdout
    assert "Position of the one relevant passage among 2" in done.stdout
    told = json.loads((here / "out" / "correlation.json").read_text())
    assert {each["system"] for each in told["correlations"]} == {"all", "bm25", "other"}
    assert {"sper,n=2", "mean question-gain", "UDCGθ"} <= {each["metric"] for each in told["correlations"]}
    assert told["timing"]["lists"]["from_store"] > 0
    assert (here / "out" / "responses.sqlite").exists()
    again = study(*words, "--answers", "out/answers.jsonl")
    assert again.exit_code == 0, again.exception
    after = json.loads((here / "out" / "correlation.json").read_text())
    assert after["correlations"] == told["correlations"]
    assert all(part["computed"] == 0 for part in after["timing"].values()), "everything came from the store"
    page = CliRunner().invoke(app, ["report", "out"])
    assert page.exit_code == 0, (page.output, page.exception)
    html = (here / "out" / "report" / "report.html").read_text()
    assert "mean question-gain" in html and "no evaluation yet" not in html


def test_relevance_by_labels_as_typed(here, model):
    numbers = [(f"q{i}", f"p{j}", 0.9 if i == j else 0.2) for i in range(6) for j in range(6)]
    rows = [
        UtilityLabel(query_id, (each,), number, "ok", "llm-relevance@0a1b2c3d") for query_id, each, number in numbers
    ]
    write_labels(here / "labels.jsonl", Labels(rows))
    (here / "data" / "qrels.tsv").unlink()
    words = ("-g", model, "-k", "1,2", "--position", 0, "--ideal", 0, "--relevance", "llm-relevance=labels.jsonl")
    done = study(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "relevance llm-relevance@0a1b2c3d, best of each query" in done.stdout
    told = json.loads((here / "out" / "correlation.json").read_text())
    assert told["counts"]["questions studied"] == 6
    words = ["--run", "mine.trec", "-m", "RR", "--relevance", "labels.jsonl", "--relevant-from", "0.1"]
    done = CliRunner().invoke(app, ["evaluate", "data", *words, "--out", "report"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert "relevance: llm-relevance@0a1b2c3d, from 0.1" in done.stdout
    assert "1.000" in done.stdout, "all is relevant from 0.1 on"
    done = CliRunner().invoke(
        app, ["compare", "mine.trec", "b=mine.trec", "-d", "data", "--relevance", "contains", "--out", "comparison"]
    )
    assert done.exit_code == 0, (done.output, done.exception)
    assert "relevance: contains" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-k", "0"), "-k: found '0'"),
        (("-k", "3..1"), "-k: found '3..1'"),
        (("-k", "all"), "such as 5, 1..10 or 1,3,5"),
        (("--position", 1), "--position 1"),
        (("--relevance", "llm"), "expected one of: judged, contains"),
        (("--relevance", "contains", "--relevant-from", 1), "takes no relevant_from"),
        (("--answer-measure", "F1"), "known here: contains, EM"),
        (("--answer-prompt", "nowhere"), "nowhere"),
        (("-u", "gain"), "information-gain"),
        (("--set-utility", "gain"), "information-gain"),
        (("--u", "gain"), "information-gain"),
        (("-r", "splade"), "expected bm25 or dense, or NAME=FILE"),
        (("-r", "bm25", "-r", "bm25=mine.trec"), "the name 'bm25' twice"),
        (("--store", "data"), "--store: data is a folder"),
    ],
)
def test_options_are_looked_at_before_the_model_is_loaded(words, said):
    done = study("-g", "./no-such-model", *words)
    assert isinstance(done.exception, ConfigError)
    assert said in str(done.exception)


def test_list_lengths():
    assert _lengths(["1..10"]) == list(range(1, 11))
    assert _lengths(["5, 1..2", "2"]) == [1, 2, 5]
