"""``compare`` and ``report`` as typed."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.records import (
    Answer,
    Dataset,
    Labels,
    Passage,
    Query,
    Run,
    Turn,
    UtilityLabel,
    write_answers,
    write_dataset,
    write_labels,
    write_run,
)

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


def test_what_is_compared_is_never_deleted(tmp_path):
    write_dataset(tmp_path / "data", Dataset([Passage("a", "A.")], [Query("q", "Q?")], {"q": {"a": 1}}))
    files = [tmp_path / "runs" / f"2024-{name}.trec" for name in ("mine", "other")]
    for path in files:
        write_run(path, Run({"q": [("a", 1.0)]}))
    before = [path.read_bytes() for path in files]
    done = run("compare", f"a={files[0]}", f"b={files[1]}", "-d", tmp_path / "data", "-o", tmp_path)
    assert done.exit_code != 0 and "give another --out" in str(done.exception)
    assert [path.read_bytes() for path in files] == before


def test_answers_of_a_system_without_a_run_are_refused(tmp_path):
    write_dataset(tmp_path / "data", Dataset([Passage("a", "A.")], [Query("q", "Q?")], {"q": {"a": 1}}))
    write_run(tmp_path / "r.trec", Run({"q": [("a", 1.0)]}))
    write_answers(tmp_path / "a.jsonl", [Answer("q", (), "x", False, None)])
    words = (
        "--run",
        f"bm25={tmp_path / 'r.trec'}",
        "--answers",
        f"bm52={tmp_path / 'a.jsonl'}",
        "-o",
        tmp_path / "out",
    )
    done = run("evaluate", tmp_path / "data", *words)
    assert done.exit_code != 0 and "no such run; they are: bm25" in str(done.exception)


def test_gamma_and_unjudged_reach_udcg_in_evaluate_and_compare(tmp_path):
    # a is relevant with u .9, b is judged irrelevant with u .6, x is not judged, u .3.
    world = Dataset(
        [Passage("a", "A."), Passage("b", "B."), Passage("x", "X.")], [Query("q", "Q?")], {"q": {"a": 1, "b": 0}}
    )
    write_dataset(tmp_path / "data", world)
    write_run(tmp_path / "r.trec", Run({"q": [("a", 3.0), ("b", 2.0), ("x", 1.0)]}))
    write_labels(
        tmp_path / "labels.jsonl",
        Labels([UtilityLabel("q", (p,), u, "ok", "abstention@0") for p, u in {"a": 0.9, "b": 0.6, "x": 0.3}.items()]),
    )
    run_file, measured = (
        tmp_path / "r.trec",
        ("--labels", tmp_path / "labels.jsonl", "-m", "rawUDCG@3", "-m", "distraction@3", "-q"),
    )
    for number, (options, expected) in enumerate(
        [
            ((), (0.9 - 0.9 / 3) / 3),
            (("--gamma", "1"), 0.0),
            (("--unjudged", "skip"), (0.9 - 0.6 / 3) / 3),
        ]
    ):
        for verb in (
            ("evaluate", tmp_path / "data", "--run", run_file),
            ("compare", f"s={run_file}", f"t={run_file}", "--data", tmp_path / "data"),
        ):
            out = tmp_path / f"{verb[0]}{number}"
            done = run(*verb, *measured, *options, "-o", out)
            assert done.exit_code == 0, done.output
            table = json.loads((out / "report.json").read_text())["tables"][0]
            assert table["rows"][0]["cells"]["rawUDCG@3"]["mean"] == pytest.approx(expected)
            distraction = 0.6 / 3 if "--unjudged" in options else (0.6 + 0.3) / 3
            assert table["rows"][0]["cells"]["distraction@3"]["mean"] == pytest.approx(distraction)
            assert "less is better" in done.stdout
            gamma = "1" if "--gamma" in options else "0.333"
            assert f"u is abstention, relevant from grade 1 of the judgements, γ {gamma}" in " ".join(
                done.stdout.split()
            )
    bad = run("evaluate", tmp_path / "data", "--run", run_file, *measured, "--unjudged", "xyz", "-o", tmp_path / "bad")
    assert "unjudged is 'xyz'" in str(bad.exception)
    assert run(
        "evaluate", tmp_path / "data", "--run", run_file, *measured, "--gamma", "nan", "-o", tmp_path / "nan"
    ).exit_code
