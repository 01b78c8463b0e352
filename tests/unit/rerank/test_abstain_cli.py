"""``utilitune train reranker --relevance``, ``calibrate`` and ``rerank --abstain`` on a rule that can be learnt."""

from __future__ import annotations

import json
import random
import re
import shutil

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.errors import ConfigError
from utilitune.records import Labels, Passage, Query, Run, UtilityLabel, read_run, write_labels, write_rows, write_run
from utilitune.rerank import UtilityReranker

FILLER = ("red", "blue", "town", "king", "river", "bridge", "mill", "old", "new")


def called(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """40 questions with 4 passages; in every second question one of them is good, the others of no help."""
    folder = tmp_path_factory.mktemp("world")
    generator = random.Random(1)
    corpus, queries, rows, qrels, run = [], [], [], [], Run()
    for place in range(40):
        query = Query(f"q{place}", " ".join(generator.choices(FILLER, k=4)))
        queries.append({"_id": query.id, "text": query.text, "split": "train" if place < 26 else "test"})
        run[query.id] = []
        for slot in range(4):
            helps = slot == 1 and place % 2 == 0
            text = " ".join([*generator.choices(FILLER, k=6), "good" if helps else "bad"])
            passage = Passage(f"{query.id}-{slot}", text)
            corpus.append({"_id": passage.id, "text": passage.text})
            u = 0.9 if helps else generator.choice((0.2, 0.8))
            rows.append(UtilityLabel(query.id, (passage.id,), u, "ok", "abstention@00000000"))
            qrels.append(f"{query.id}\t{passage.id}\t{int(helps)}")
            run[query.id].append((passage.id, 4.0 - slot))
    write_rows(folder / "corpus.jsonl", corpus)
    write_rows(folder / "queries.jsonl", queries)
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(qrels) + "\n")
    write_labels(folder / "labels.jsonl", Labels(rows))
    write_run(folder / "bm25.trec", run)
    return folder


@pytest.fixture(scope="module")
def trained(world, tiny_bert):
    out = world / "reranker"
    done = called(
        *("train", "reranker", world, "--labels", world / "labels.jsonl", "--base", tiny_bert, "--out", out),
        *("--loss", "udcg", "--relevance", "gold", "--lr", "5e-3", "--epochs", "8", "--batch-pairs", "16"),
    )
    assert done.exit_code == 0, done.output
    report = json.loads((out / "training.json").read_text())
    assert report["targets"]["relevance"]["source"] == "gold" and report["targets"]["rescale"] == "none"
    assert report["epochs"][report["kept_epoch"]]["dev"]["ndcg"] > 0.9
    assert "counted: queries without a relevant candidate (kept) 20" in done.output
    done = called(
        *("calibrate", world, "--labels", world / "labels.jsonl", "--reranker", out, "--relevance", "gold", "-k", "3")
    )
    assert done.exit_code == 0, done.output
    assert "queries that it was trained on" in done.output and "threshold: logit" in done.output
    return out


def rerank(world, trained, *options):
    out = world / "reranked.trec"
    done = called(*("rerank", world, "--run", world / "bm25.trec", "--reranker", trained, "--out", out, *options))
    assert done.exit_code == 0, done.output
    return read_run(out), done.output


def test_abstaining_keeps_what_helps_and_nothing_where_nothing_does(world, trained):
    run, said = rerank(world, trained, "--abstain")
    kept = {passage_id for ranking in run.values() for passage_id, _ in ranking}
    assert kept == {f"q{place}-1" for place in range(0, 40, 2)}
    assert "abstained 20" in said and "dropped 140" in said
    assert "0 in 20 queries, 1 in 20 queries" in said


def test_the_other_two_thresholds(world, trained):
    calibration = UtilityReranker.load(trained, device="cpu").calibration
    by_chance, _ = rerank(world, trained, "--min-probability", "0.5", "-k", "1")
    by_score, _ = rerank(world, trained, "--min-score", repr(calibration.score(0.5)), "-k", "1")
    assert by_chance == by_score and all(len(ranking) == 1 for ranking in by_score.values())
    everything, said = rerank(world, trained)
    assert all(len(ranking) == 4 for ranking in everything.values()) and "kept" not in said


def test_calibrate_leaves_out_whole_conversations_whatever_part_their_turns_are_in(world, trained, tmp_path):
    """Turns place and place + 20 are of one conversation; 26 to 39 are for testing."""
    data, model = tmp_path / "data", tmp_path / "model"
    shutil.copytree(world, data, ignore=shutil.ignore_patterns("reranker"))
    shutil.copytree(trained, model)
    queries = [json.loads(line) for line in (world / "queries.jsonl").read_text().splitlines()]
    write_rows(data / "queries.jsonl", [{**row, "conversation": f"c{at % 20}"} for at, row in enumerate(queries)])
    report = json.loads((model / "training.json").read_text())
    report["queries"]["train"] = ["q6", "q7", "q26"]
    (model / "training.json").write_text(json.dumps(report))

    def said(folder):
        words = ("calibrate", folder, "--labels", world / "labels.jsonl", "--reranker", model, "--relevance", "gold")
        return called(*words, "--split", "test").output

    left_out = "(left out: queries that it was trained on 1, queries of the same conversations 1)"
    assert f"48 pairs of 12 held-out queries {left_out}" in said(data)
    assert "52 pairs of 13 held-out queries (left out: queries that it was trained on 1)" in said(world)


def test_calibrate_takes_questions_of_one_prefix_for_no_conversation(world, trained, tmp_path):
    """``nq_0``, ``nq_1`` ... beside a conversation: those that were not trained on are held out."""
    data, model = tmp_path / "data", tmp_path / "model"
    shutil.copytree(world, data, ignore=shutil.ignore_patterns("reranker"))
    shutil.copytree(trained, model)
    for path in (*data.glob("*.jsonl"), data / "qrels.tsv", model / "training.json"):
        path.write_text(re.sub(r"\bq(?=\d)", "nq_", path.read_text()))
    turns = [
        {"_id": "c1_1", "text": "who"},
        {"_id": "c1_2", "text": "old", "history": [{"role": "user", "content": "who"}]},
    ]
    with (data / "queries.jsonl").open("a") as file:
        file.writelines(json.dumps({**turn, "split": "train"}) + "\n" for turn in turns)
    done = called(
        *("calibrate", data, "--labels", data / "labels.jsonl", "--reranker", model, "--relevance", "gold", "-k", "3")
    )
    trained_on = len(json.loads((model / "training.json").read_text())["queries"]["train"])
    assert (
        f"of {40 - trained_on} held-out queries (left out: queries that it was trained on {trained_on})" in done.output
    )
    assert json.loads((model / "calibration.json").read_text())["threshold"]["cross_fitted"] is not None


def test_contradictions_and_missing_calibration_are_refused(world, trained, tmp_path):
    with pytest.raises(ConfigError, match="give one of them"):
        rerank(world, trained, "--abstain", "--min-score", "1")
    UtilityReranker.load(trained, device="cpu").model.save_pretrained(str(tmp_path / "bare"))
    with pytest.raises(ConfigError, match="utilitune calibrate"):
        rerank(world, tmp_path / "bare", "--abstain")
    with pytest.raises(ConfigError, match="no model folder"):
        called("calibrate", world, "--labels", world / "labels.jsonl", "--reranker", tmp_path / "nothing")
