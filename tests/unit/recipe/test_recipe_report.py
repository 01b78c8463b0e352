"""The report of the real evaluate stage, over real data, index and retrieve stages and handmade other outputs."""

import json
import shutil

import pytest

from utilitune.evaluation import Row
from utilitune.evaluation.html import run_report
from utilitune.recipe import run_recipe
from utilitune.recipe.stage import run_stage
from utilitune.recipe.stages import STAGES
from utilitune.recipe.stages.rewriter_table import query_forms, share_of_gain
from utilitune.recipe.workspace import Workspace
from utilitune.records import Answer, Labels, Run, UtilityLabel, read_run, write_answers, write_labels, write_run

MEASURED = ("rewrite", "train-reranker", "rerank", "utility", "answer")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UTILITUNE_CACHE", str(tmp_path / "cache"))


def finish(out, training=None):
    """Leave behind what the stages with models do: rewrites, a reversed ranking, utilities, right answers."""
    before = read_run(out / "retrieve" / "bm25.test.trec")
    after = Run({query: [(p, -score) for p, score in reversed(hits)] for query, hits in before.items()})
    for stage in MEASURED:
        (out / stage).mkdir()
        record = {
            "stage": stage,
            "status": "done",
            "outputs": stage,
            "counts": {"cut": 2},
            "models": {"generator": stage},
        }
        (out / stage / "stage.json").write_text(json.dumps(record))
    for stage in sorted({*STAGES["evaluate"].needs} - {*MEASURED, "data", "index", "retrieve"}):
        (out / stage).mkdir()
        (out / stage / "stage.json").write_text(json.dumps({"stage": stage, "status": "left out"}))
    for name in ("untuned", "tuned"):
        rows = [{"query_id": f"c{i}_2", "text": f"river of {'Eke' if i == 4 else 'Fim'}"} for i in (4, 5)]
        (out / "rewrite" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    kept = {"kept_epoch": 2, "warnings": [], "config": {"epochs": 3}}
    (out / "train-reranker" / "training.json").write_text(json.dumps(training or kept))
    write_run(out / "rerank" / "bm25.trec", after)
    labels = [UtilityLabel(q, (p,), 0.5, "ok", "abstention@x", {}) for q, hits in before.items() for p, _ in hits]
    write_labels(out / "utility" / "labels.jsonl", Labels(labels, {"warnings": {"x": "never abstains"}}))
    for moment in ("before", "after"):
        write_answers(
            out / "answer" / f"bm25.{moment}.jsonl", [Answer(f"q{i}", (), f"river {i}", False, -1.0) for i in (4, 5)]
        )


def report(recipe, **options):
    """Run what can run, finish the rest by hand, evaluate; return report.json and the text table."""
    run_recipe(recipe, only=["data", "index", "retrieve"])
    finish(recipe.out, **options)
    assert run_stage(STAGES["evaluate"], Workspace(recipe)) == "ran"
    folder = recipe.out / "evaluate"
    return json.loads((folder / "report.json").read_text()), (folder / "table.txt").read_text()


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_both_tables_are_measured(recipe):
    found, text = report(recipe())
    rewriter, reranker = found["tables"]
    rows = {row["name"]: row["cells"] for row in rewriter["rows"]}
    assert rows["tuned rewriter"]["MRR@10"]["mean"] == 1.0
    assert rows["first question + question"]["MRR@10"]["mean"] == 1.0
    assert rows["raw question"]["MRR@10"]["mean"] < 1.0
    assert "human rewrite" not in rows
    assert rewriter["notes"] == [
        "2 turns of 2 conversations.",
        "No row for human rewrites: 0 of 2 turns have one.",
    ]
    assert rewriter["clusters"] == {"name": "conversation", "n": 2}
    (block,) = rewriter["pairwise"]["blocks"]
    assert {system["name"] for system in block["systems"]} == set(rows)
    assert reranker["clusters"] is None
    rows = {row["name"]: row["cells"] for row in reranker["rows"]}
    assert rows["first stage"]["MRR@10"]["mean"] == 1.0
    assert rows["tuned reranker"]["MRR@10"]["mean"] == 0.25
    assert rows["oracle order of the first stage"]["MRR@10"]["mean"] == 1.0
    assert rows["oracle order of the first stage"]["UDCG@5"] is None
    assert rows["tuned reranker"]["contains"]["mean"] == 1.0
    assert "Reranker: epoch 2 of 3 was kept." in reranker["notes"]
    assert "never abstains" in reranker["notes"]
    assert reranker["notes"][0].startswith(
        "WARNING: on bm25 the tuned reranker is worse than its first stage: "
        "MRR@10 1.000 ▶ 0.250 (-0.750 [-0.750, -0.750]); nDCG@10 1.000 ▶"
    )
    assert "WARNING" in text


def test_a_reranker_that_is_no_worse_is_not_warned_of(recipe):
    run_recipe(recipe(), only=["data", "index", "retrieve"])
    finish(recipe().out)
    shutil.copy(recipe().out / "retrieve" / "bm25.test.trec", recipe().out / "rerank" / "bm25.trec")
    assert run_stage(STAGES["evaluate"], Workspace(recipe())) == "ran"
    assert "WARNING" not in (recipe().out / "evaluate" / "table.txt").read_text()


def test_a_row_of_human_rewrites_needs_one_for_every_turn_and_says_so(tiny, recipe):
    queries = tiny / "data" / "queries.jsonl"
    edit(queries, '"_id": "c4_2",', '"_id": "c4_2", "rewrite": "On which river lies Eke?",')
    found, _ = report(recipe())
    assert "No row for human rewrites: 1 of 2 turns have one." in found["tables"][0]["notes"]
    turns = Workspace(recipe()).queries("test_turns")
    assert "human rewrite" in query_forms([turn for turn in turns if turn.rewrite], recipe().out / "rewrite", ["dpo"])


def test_the_runs_of_both_rewriters_are_kept_and_the_page_shows_them(recipe):
    report(recipe())
    out = recipe().out
    tuned = read_run(out / "evaluate" / "runs" / "bm25.tuned.trec")
    assert set(tuned) == {"c4_2", "c5_2"} and all(tuned.values())
    body = run_report(out)
    (rewriter, reranker) = body["examples"]
    assert rewriter["title"] == "bm25 · untuned rewriter ▶ tuned rewriter, by MRR@10"
    assert rewriter["equal"] == 2
    assert reranker["worse"] == 2
    first = reranker["items"][0]["sides"][0]
    assert first["answer"].startswith("river") and first["passages"][0]["utility"] == 0.5
    assert [plot["kind"] for plot in body["plots"]].count("gains") == 2


def test_answers_with_what_the_rewrites_find_stand_beside_their_ranks(tiny, recipe):
    edit(tiny / "data" / "queries.jsonl", '"_id": "c4_2",', '"_id": "c4_2", "answers": ["river 4"],')
    made = recipe("evaluation.rewriter_answer_k=1")
    run_recipe(made, only=["data", "index", "retrieve"])
    finish(made.out)
    folder = made.out / "answer-rewrites"
    (folder / "stage.json").write_text(json.dumps({"stage": "answer-rewrites", "status": "done", "outputs": "x"}))
    for moment, text in (("untuned", "a lake"), ("tuned", "the river 4")):
        write_answers(folder / f"bm25.{moment}.jsonl", [Answer("c4_2", (), text, False, -1.0)])
    assert run_stage(STAGES["evaluate"], Workspace(made)) == "ran"
    table = json.loads((made.out / "evaluate" / "report.json").read_text())["tables"][0]
    rows = {row["name"]: row["cells"] for row in table["rows"]}
    assert [rows[f"{moment} rewriter"]["contains"]["mean"] for moment in ("untuned", "tuned")] == [0.0, 1.0]
    assert rows["tuned rewriter"]["contains"]["change"]["difference"] == 1.0
    assert rows["raw question"]["contains"] is None and rows["raw question"]["MRR@10"] is not None
    assert any("with the top 1 passages of both rewriters" in note for note in table["notes"])


def test_the_share_of_a_yardsticks_gain_by_hand():
    def row(name, *numbers):
        return Row(name, {"X": {f"c{i // 2}_{i % 2}": number for i, number in enumerate(numbers)}}, "bm25")

    clusters = {f"c{i}_{j}": f"c{i}" for i in range(3) for j in range(2)}
    rows = [row("untuned rewriter", *[0.0] * 6), row("tuned rewriter", 0.4, 0.4, 0.2, 0.2, 0.3, 0.3)]
    yardstick = row("yardstick gold-rank", 0.5, 0.3, 0.4, 0.4, 0.6, 0.2)
    (said,) = share_of_gain([*rows, yardstick], "X", clusters)
    # Gains by conversation .8, .4, .6 of .8, .8, .8; the extremes are draws of one conversation alone.
    assert said.startswith("bm25, gain in X over the untuned rewriter: the tuned one has 0.75 [0.5")
    assert said.endswith("1.00] of that of 'yardstick gold-rank'.")
    (unclear,) = share_of_gain([*rows, row("yardstick gold-rank", 0.5, 0.3, -0.4, -0.4, 0.0, 0.0)], "X", clusters)
    assert "no share" in unclear and "includes 0" in unclear
    assert share_of_gain(rows, "X", clusters) == []


def test_an_untrained_reranker_is_called_that(recipe):
    training = {"kept_epoch": 0, "warnings": ["training made it worse"], "config": {"epochs": 3}}
    found, text = report(recipe(), training=training)
    notes = found["tables"][1]["notes"]
    assert "Reranker: the untrained model (no epoch was better) was kept." in notes
    assert "Reranker training: training made it worse" in notes
    assert "untrained model" in text


def test_without_judgements_answers_alone_are_measured(tiny, recipe):
    (tiny / "data" / "qrels.tsv").unlink()
    found, _ = report(recipe())
    (table,) = found["tables"]
    assert table["columns"] == ["contains", "EM", "F1"]
    assert [row["name"] for row in table["rows"]] == ["first stage", "tuned reranker"]
    assert table["rows"][0]["cells"]["contains"]["mean"] == 1.0
    assert "None of the 2 test questions is judged, so retrieval is not measured." in table["notes"]
    assert found["notes"] == ["Rewriter: none of the 2 test turns is judged, so it is not measured."]


@pytest.mark.parametrize(("prefix", "left"), [("q", "Rewriter"), ("c", "Reranker")])
def test_a_table_without_judged_test_queries_does_not_stop_the_other(tiny, recipe, prefix, left):
    qrels = tiny / "data" / "qrels.tsv"
    lines = qrels.read_text().splitlines()
    test = tuple(f"{'c' if prefix == 'q' else 'q'}{i}" for i in (4, 5))
    qrels.write_text("\n".join(line for line in lines if not line.startswith(test)) + "\n")
    found, _ = report(recipe())
    assert left in " ".join([*found["notes"], *(note for table in found["tables"] for note in table["notes"])])
    judged = [table for table in found["tables"] if "MRR@10" in table["columns"]]
    assert len(judged) == 1
    assert left not in judged[0]["title"]


def test_nothing_to_measure_is_a_report_that_says_so(tiny, recipe):
    (tiny / "data" / "qrels.tsv").unlink()
    queries = tiny / "data" / "queries.jsonl"
    rows = [json.loads(line) for line in queries.read_text().splitlines()]
    queries.write_text("".join(json.dumps({**row, "answers": []}) + "\n" for row in rows))
    found, text = report(recipe())
    assert found["tables"] == []
    assert len(found["notes"]) == 2
    assert "none of the 2 test questions is judged or has answers" in text


def test_the_report_says_what_made_it(recipe):
    found, _ = report(recipe())
    stages = found["manifest"]["stages"]
    assert set(stages["data"]["files"]) == {"corpus.jsonl", "queries.jsonl", "qrels.tsv"}
    assert stages["retrieve"]["upstream"]
    assert stages["utility"]["models"] == {"generator": "utility"}
    assert found["counts"]["answer"] == {"cut": 2}
    identities = json.loads((recipe().out / "evaluate" / "stage.json").read_text())["inputs"]["identities"]
    assert len(identities["generator"]["sha256"]) == 64


def test_utilities_are_asked_for_what_udcg_will_read(recipe, monkeypatch):
    """Equal scores: UDCG reads the higher id first, whatever the order of the file."""
    asked = {}

    def spy(out, dataset, run, *rest, **options):
        asked.update(run)
        return Labels([], {"counts": {}})

    made = recipe("evaluation.udcg_k=1")
    run_recipe(made, only=["data", "index", "retrieve"])
    for path in (made.out / "retrieve" / "bm25.test.trec", made.out / "rerank" / "bm25.trec"):
        write_run(path, Run({"q4": [("p0", 1.0), ("p5", 1.0), ("p4", 1.0)]}))
    monkeypatch.setattr("utilitune.scoring.label_file", spy)
    monkeypatch.setattr(Workspace, "generator", None)
    STAGES["utility"].action(Workspace(made))
    assert asked == {"q4": [("p5", 1.0)]}
