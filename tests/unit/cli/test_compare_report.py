"""``compare`` and ``report`` as typed."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.records import Dataset, Passage, Query, Run, Turn, write_dataset, write_run

sys.path.insert(0, str(Path(__file__).parents[1] / "evaluation"))
from finished_run import finished_run


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("cli") / "run")


def test_compare_then_report(finished, tmp_path):
    out = tmp_path / "comparison"
    before, after = finished / "retrieve" / "bm25.test.trec", finished / "rerank" / "bm25.trec"
    labels = ("--labels", finished / "utility" / "labels.jsonl")
    done = run(
        "compare", f"before={before}", f"after={after}", "-d", finished / "data" / "world", *labels, "-o", out, "-q"
    )
    assert done.exit_code == 0, done.output
    assert "0.521 ▶ 0.750" in done.stdout
    assert "after, MRR@10: 6 won, 3 tied, 3 lost" in done.stdout
    assert "Queries: scored 12 = 12 answered + 0 missing; 0 unjudged." in done.stdout
    body = json.loads((out / "report.json").read_text())
    assert body["tables"][0]["columns"] == ["MRR@10", "nDCG@10", "R@10", "UDCG@5"]
    assert body["manifest"]["command"].startswith("utilitune")
    done = run("report", out, "-q")
    assert done.exit_code == 0, done.output
    page = (out / "report" / "report.html").read_text(encoding="utf-8")
    assert "before ▶ after, by MRR@10" in page
    assert "Mill 2 lies at Eke 2." in page


def test_report_of_a_run_lies_inside_it(finished):
    done = run("report", finished)
    assert done.exit_code == 0, done.output
    assert str(finished / "report" / "report.html") in done.stdout


def test_errors_are_for_people(finished, tmp_path):
    assert "neither report.json nor" in str(run("report", tmp_path).exception)
    write_run(tmp_path / "a.trec", Run({"q0": [("p0", 1.0)]}))
    done = run("compare", tmp_path / "a.trec", f"b={tmp_path / 'a.trec'}", "-o", tmp_path / "out")
    assert "--data" in str(done.exception)
    assert not (tmp_path / "out").exists()
    world = finished / "data" / "world"
    assert "holds a data set" in str(run("compare", "x", "y", "-o", world).exception)


def test_conversations_and_expected_ties_as_typed(tmp_path):
    world = tmp_path / "world"
    history = (Turn("user", "hello"),)
    queries = [Query(f"c{i // 3}_{i}", f"question {i}", history=history) for i in range(12)]
    corpus = [Passage(name, name) for name in "abcd"]
    write_dataset(world, Dataset(corpus, queries, {query.id: {"a": 1.0} for query in queries}))
    tied = Run({query.id: [(name, 1.0) for name in "abcd"] for query in queries})
    write_run(tmp_path / "tied.trec", tied)
    write_run(tmp_path / "best.trec", Run({query.id: [("a", 1.0)] for query in queries}))
    files = ("tied=" + str(tmp_path / "tied.trec"), "best=" + str(tmp_path / "best.trec"))
    both = ("-m", "P@1", "--ties", "expected", "-q")
    compared = run("compare", *files, "-d", world, *both, "-o", tmp_path / "one")
    evaluated = run("evaluate", world, "--run", files[0], "--run", files[1], *both, "-o", tmp_path / "two")
    for done in (compared, evaluated):
        assert done.exit_code == 0, done.output
        assert "0.250 ▶ 1.000" in done.stdout
        assert "over 4 whole conversations" in done.stdout
        assert "mean over all orders of equal scores" in done.stdout
    alone = run("compare", *files, "-d", world, "-m", "P@1", "--cluster-by", "query", "-q", "-o", tmp_path / "three")
    assert "bootstrap interval over queries" in alone.stdout and "0.000 ▶ 1.000" in alone.stdout
    wrong = run("evaluate", world, "--run", files[0], "--cluster-by", "topic", "-o", tmp_path / "four")
    assert "known: conversation, query" in str(wrong.exception)
    assert "known: trec, expected" in str(run("compare", *files, "-d", world, "--ties", "best", "-o", "five").exception)
