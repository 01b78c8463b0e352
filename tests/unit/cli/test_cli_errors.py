"""Exit codes and messages of the command line, through the installed program."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("utilitune")


def run(*words, cwd):
    return subprocess.run([PROGRAM, *map(str, words)], cwd=cwd, capture_output=True, text=True)


@pytest.fixture
def world(tmp_path):
    folder = tmp_path / "world"
    folder.mkdir()
    passages = [
        {"_id": f"p{i}", "title": "", "text": f"The mill of Orlen number {i} was built in 18{i}0."} for i in range(5)
    ]
    queries = [{"_id": "q1", "text": "When was mill number 3 built?", "answers": ["1830"]}]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in passages))
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tp3\t1\n")
    return folder


def test_validate_index_retrieve_evaluate(world, tmp_path):
    assert run("validate", "world", cwd=tmp_path).returncode == 0
    assert run("index", "world", "--out", "index", cwd=tmp_path).returncode == 0
    done = run("retrieve", "world", "--index", "index", "-k", "3", "--out", "run.trec", "--quiet", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    done = run("evaluate", "world", "--run", "bm25=run.trec", "--out", "report", cwd=tmp_path)
    assert done.returncode == 0
    assert "MRR@10" in done.stdout
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["tables"][0]["rows"][0]["cells"]["MRR@10"]["mean"] == 1.0
    assert "utilitune evaluate world" in report["manifest"]["command"]


def test_bad_data_is_exit_1_without_a_traceback(world, tmp_path):
    with (world / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "p9", "text": \n')
    done = run("validate", "world", cwd=tmp_path)
    assert done.returncode == 1
    assert "corpus.jsonl:6" in done.stdout
    done = run("index", "world", "--out", "index", cwd=tmp_path)
    assert done.returncode == 1
    assert "corpus.jsonl:6" in done.stderr
    assert "utilitune validate" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["index", "world", "--kind", "splade", "--out", "x"], "expected bm25 or dense"),
        (["retrieve", "world", "--index", "nowhere", "--out", "x"], "nowhere"),
        (["label", "world", "--run", "nowhere.trec", "--out", "x", "-u", "gain"], "information-gain"),
        (["label", "world", "--run", "nowhere.trec", "--out", "x"], "nowhere.trec"),
        (["evaluate", "world", "--run", "nowhere.trec", "--out", "x"], "nowhere.trec"),
        (["pairs", "world", "--out", "x"], "--index"),
        (["run", "nowhere.yaml"], "no such recipe"),
        (["models", "fetch", "packaged:llama"], "packaged:smollm2-135m-instruct"),
        (["rerank", "world", "--run", "r", "--reranker", "nowhere", "--out", "x"], "nowhere"),
    ],
)
def test_input_at_fault_is_exit_1_and_names_it(world, tmp_path, words, message):
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_usage_is_exit_2(tmp_path):
    assert run("label", cwd=tmp_path).returncode == 2
    assert run("no-such-verb", cwd=tmp_path).returncode == 2
