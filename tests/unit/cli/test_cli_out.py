"""Where the verbs write, and their other options, are looked at before any work."""

import json

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.cli.out import check_store
from utilitune.errors import ConfigError

# None of these inputs exists: an error about --out shows that it was looked at first.
FILE_VERBS = [
    ("retrieve", "data", "--index", "index"),
    ("label", "data", "--run", "r.trec"),
    ("answer", "data", "--run", "r.trec"),
    ("pairs", "data", "--index", "index"),
    ("rewrite", "data"),
    ("rerank", "data", "--run", "r.trec", "--reranker", "model"),
]
FOLDER_VERBS = [
    ("index", "data"),
    ("evaluate", "data", "--run", "r.trec"),
    ("train", "rewriter", "p.jsonl"),
    ("train", "reranker", "data", "--labels", "l.jsonl"),
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "world").mkdir()
    (tmp_path / "world" / "corpus.jsonl.gz").write_text("mine")
    return tmp_path


def failure(*words):
    done = CliRunner().invoke(app, list(map(str, words)))
    assert isinstance(done.exception, ConfigError), (done.output, done.exception)
    return str(done.exception)


@pytest.mark.parametrize("words", FILE_VERBS, ids=lambda words: words[0])
def test_a_file_cannot_take_the_place_of_a_folder(words):
    assert "--out: folder is a folder, expected a file" in failure(*words, "--out", "folder")
    assert "which is a file" in failure(*words, "--out", "file/x/y.jsonl")


@pytest.mark.parametrize("words", FOLDER_VERBS, ids=lambda words: words[:2])
def test_a_folder_cannot_take_the_place_of_a_file_or_of_data(words, here):
    assert "--out: file is a file, expected a folder" in failure(*words, "--out", "file")
    assert "--out: world holds a data set (corpus.jsonl.gz)" in failure(*words, "--out", "world")
    assert "which is a file" in failure(*words, "--out", "file/x")
    assert (here / "file").read_text() == "mine"


@pytest.mark.parametrize("words", [words for words in FILE_VERBS if words[0] in ("label", "answer", "pairs")])
@pytest.mark.parametrize(
    "more", [("--out", "x.sqlite"), ("--out", "a", "--store", "a"), ("--out", "./a", "--store", "a")]
)
def test_the_store_is_another_file(words, more):
    assert "is the store as well" in failure(*words, *more)
    assert "--store: folder is a folder" in failure(*words, "--out", "a", "--store", "folder")


def test_the_store_lies_beside_the_output(here):
    assert check_store(here / "labels.jsonl", None) == here / "labels.sqlite"
    assert check_store(here / "new" / "labels.jsonl", here / "file") == here / "file"


def test_options_of_pairs_are_looked_at_before_the_data():
    words = ("pairs", "data", "--index", "index", "--out", "p.jsonl")
    assert "keep=5.0" in failure(*words, "--keep", "5")
    assert "keep=0.0" in failure(*words, "--keep", "0")
    for temperature in ("-1", "0", "nan", "inf"):
        assert "temperature=" in failure(*words, "--temperature", temperature)
    assert "median" in failure(*words, "--aggregate", "median")
    assert "information-gain" in failure(*words, "-u", "gain")


def test_two_indexes_of_one_name_are_refused(here):
    write_world(here / "data")
    said = failure("pairs", "data", "-i", "a/bm25", "-i", "b/bm25", "--out", "p.jsonl")
    assert "a/bm25 and b/bm25 are both named 'bm25'" in said


def test_pairs_from_candidates_names_the_options_that_change_nothing(here):
    (here / "c.jsonl").write_text("")
    words = ("pairs", "data", "--candidates", "c.jsonl", "--rewriter", "./nowhere", "--out", "p.jsonl")
    said = CliRunner().invoke(
        app, [*words, "-i", "x", "-n", "9", "-k", "2", "-u", "entropy-drop", "--aggregate", "mean"]
    )
    assert "change nothing: --index, --utility, -n, -k, --aggregate\n" in said.stderr
    said = CliRunner().invoke(app, [*words, "--temperature", "1", "--limit", "3", "--keep", "1"])
    assert "change nothing: --temperature, --limit\n" in said.stderr
    assert "change nothing" not in CliRunner().invoke(app, list(words)).stderr


def test_train_rewriter_lists_what_is_out_of_range():
    said = failure("train", "rewriter", "p", "--out", "o", "--epochs", "-1", "--lr", "-1")
    assert said.startswith("train rewriter: 2 problem(s)")
    assert "--lr: Input should be greater than 0 (found -1.0)" in said
    assert "--epochs: Input should be greater than 0 (found -1.0)" in said
    assert "pydantic" not in said


def test_train_reranker_looks_at_its_settings_first():
    assert "learning_rate -1.0" in failure("train", "reranker", "data", "--labels", "l", "--out", "o", "--lr", "-1")


def write_world(folder, grade="1"):
    folder.mkdir()
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "p1", "text": "A mill."}) + "\n")
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "mill?"}) + "\n")
    (folder / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\nq1\tp1\t{grade}\n")
    (folder.parent / "r.trec").write_text("q1 Q0 p1 1 1.0 x\n")


def test_evaluate_names_the_options_that_a_measure_needs(here):
    write_world(here / "data", grade="0.4")
    words = ("evaluate", "data", "--run", "r.trec", "--out", "report")
    assert "--relevant-from" in failure(*words, "-m", "MRR@10")
    assert "--labels" in failure(*words, "-m", "UDCG@5")
    assert "--answers" in failure(*words, "-m", "EM")
    for level, mean in (("0.3", 1.0), ("0.5", 0.0)):
        done = CliRunner().invoke(app, [*words, "-m", "MRR@10", "--relevant-from", level])
        assert done.exit_code == 0, done.exception
        row = json.loads((here / "report" / "report.json").read_text())["tables"][0]["rows"][0]
        assert row["cells"]["MRR@10"]["mean"] == mean
