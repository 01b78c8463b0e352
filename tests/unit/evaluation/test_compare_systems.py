"""Comparison: the same queries for all, one family of tests, the largest changes with their texts."""

import csv
import json

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation import evaluate, significance, write_report
from utilitune.evaluation.compare import Side, System, compare, largest_changes, read_systems
from utilitune.evaluation.compare.comparison import same_queries
from utilitune.evaluation.report import read_per_query
from utilitune.records import Answer, Dataset, Passage, Query, Run, Turn, file_hash, read_run, write_run

PASSAGES = [Passage(pid, f"text of {pid}", title=pid.upper()) for pid in "abcdef"]
QUERIES = [Query(f"q{i}", f"question {i}", history=(Turn("user", "hello"),), answers=("yes",)) for i in range(4)]
QRELS = {"q0": {"a": 1.0}, "q1": {"b": 1.0}, "q2": {"c": 1.0}, "q3": {"d": 1.0}}
DATA = Dataset(PASSAGES, QUERIES, QRELS)
BEFORE = Run({"q0": [("b", 3.0), ("a", 2.0)], "q1": [("b", 1.0)], "q2": [("a", 2.0), ("b", 1.0)]})
AFTER = Run({"q0": [("a", 3.0), ("b", 2.0)], "q1": [("a", 2.0), ("b", 1.0)], "q2": [("c", 1.0)], "q3": [("d", 1.0)]})


def systems(**runs):
    return [System(name, run) for name, run in runs.items()]


def test_by_hand():
    found = compare(systems(before=BEFORE, after=AFTER), DATA, ["MRR@10"])
    assert found.evaluation.per_query["before"]["MRR@10"] == {"q0": 0.5, "q1": 1.0, "q2": 0.0, "q3": 0.0}
    change = found.table.cells()["", "after", "MRR@10"].change
    assert (change.before, change.after, change.wins, change.ties, change.losses) == (0.375, 0.875, 3, 0, 1)
    assert found.evaluation.coverage("before") == "scored 4 = 3 answered + 1 missing; 0 unjudged"
    alone = significance([0.5, 1.0, 0.0, 0.0], [1.0, 0.5, 1.0, 1.0])
    assert (change.p, change.low, change.high) == (alone.p, alone.low, alone.high)


def test_holm_is_over_all_systems_and_measures():
    found = compare(systems(a=BEFORE, b=AFTER, c=AFTER), DATA, ["MRR@10", "P@1"])
    changes = [cell.change for cell in found.table.cells().values() if cell.change]
    assert len(changes) == 4
    assert all(change.p_holm == min(1.0, 4 * min(each.p for each in changes)) for change in changes if change.p < 0.5)


def test_three_systems_are_also_set_against_each_other():
    found = compare(systems(a=BEFORE, b=AFTER, c=AFTER), DATA, ["MRR@10", "P@1"], by="P@1").table.as_dict()["pairwise"]
    assert (found["measure"], found["comparisons"]) == ("P@1", 3)
    assert compare(systems(a=BEFORE, b=AFTER), DATA, ["MRR@10"]).table.as_dict()["pairwise"] is None


def test_equal_runs_are_equal():
    found = compare(systems(a=AFTER, b=AFTER), DATA, ["MRR@10", "nDCG@10"])
    assert all(cell.change.p == 1.0 for cell in found.table.cells().values() if cell.change)
    assert found.examples[0]["items"] == []


def test_largest_changes_show_texts():
    answers = {"after": [Answer("q2", ("c",), "yes indeed", False, None)]}
    found = compare(
        systems(before=BEFORE, after=AFTER),
        DATA,
        ["MRR@10"],
        utilities={"q2": {"c": 0.9}},
        answers=answers,
        rewrites={"after": {"q2": "question two"}},
        limit=2,
    )
    (group,) = found.examples
    assert (group["better"], group["worse"], group["equal"]) == (3, 1, 0)
    assert [item["query_id"] for item in group["items"]] == ["q2", "q3"]
    item = group["items"][0]
    assert (item["question"], item["gold_answers"]) == ("question 2", ["yes"])
    assert item["history"] == [{"role": "user", "content": "hello"}]
    before, after = item["sides"]
    assert [passage["id"] for passage in before["passages"]] == ["a", "b"]
    assert before["rewrite"] is None
    assert after == {
        "name": "after",
        "value": 1.0,
        "rewrite": "question two",
        "answer": "yes indeed",
        "passages": [{"id": "c", "title": "C", "text": "text of c", "relevant": True, "utility": 0.9}],
    }


def test_ten_largest_by_default_equal_changes_by_id():
    values = {f"q{i:02d}": i / 20 for i in range(20)}
    zero = dict.fromkeys(values, 0.0)
    result = compare([System("a", values={"X": zero}), System("b", values={"X": values})]).evaluation
    shown = largest_changes(result, Side("a"), Side("b"), "X")["items"]
    assert [item["query_id"] for item in shown] == [f"q{i:02d}" for i in range(19, 9, -1)]
    assert shown[0]["question"] is None and shown[0]["sides"][0]["passages"] == []


def test_evaluations_are_put_on_the_same_queries_missing_counts_zero():
    filled, missing = same_queries({"a": {"X": {"q": 1.0, "r": 0.5}}, "b": {"X": {"q": 0.25}, "Y": {"q": 1.0}}})
    assert filled == {"a": {"X": {"q": 1.0, "r": 0.5}}, "b": {"X": {"q": 0.25, "r": 0.0}}}
    assert missing == {"a": {}, "b": {"missing in X, counted 0": 1}}


def test_undefined_ndcg_stays_out_for_both():
    qrels = {"q0": {"a": 0.0}, "q1": {"b": 1.0}}
    found = compare(systems(a=BEFORE, b=AFTER), Dataset(PASSAGES, QUERIES, qrels), ["nDCG@10", "MRR@10"])
    assert list(found.evaluation.per_query["b"]["nDCG@10"]) == ["q1"]
    assert list(found.evaluation.per_query["b"]["MRR@10"]) == ["q0", "q1"]


def test_what_is_written_can_be_compared_again(tmp_path):
    first = compare(systems(before=BEFORE, after=AFTER), DATA, ["MRR@10", "P@1"])
    first.write(tmp_path / "out", title="T")
    rows = list(csv.DictReader((tmp_path / "out" / "per_query.csv").open()))
    assert len(rows) == 8 and rows[0]["MRR@10"] == "0.5"
    assert sorted(path.name for path in (tmp_path / "out" / "runs").iterdir()) == ["1-before.trec", "2-after.trec"]
    assert read_run(tmp_path / "out" / "runs" / "2-after.trec") == AFTER
    again = read_systems([str(tmp_path / "out")])
    assert [system.name for system in again] == ["out · before", "out · after"]
    second = compare(again)
    assert second.evaluation.per_query["out · after"] == first.evaluation.per_query["after"]
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| after | MRR@10 | 3 | 0 | 1 |" in text
    assert "What changed most: before ▶ after, by MRR@10" in text
    assert "C text of c" in text


def test_rankings_of_an_earlier_comparison_do_not_stay_and_nothing_else_goes(tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    for name in ("mine.trec", "2024-mine.trec"):
        (runs / name).write_text("mine")
    compare(systems(a=BEFORE, b=AFTER, c=AFTER, d=AFTER), DATA, ["MRR@10"]).write(tmp_path)
    (runs / "4-d.trec").write_text("changed by hand")
    compare(systems(a=AFTER, x=AFTER), DATA, ["MRR@10"]).write(tmp_path)
    kept = ["1-a.trec", "2-x.trec", "2024-mine.trec", "4-d.trec", "mine.trec"]
    assert sorted(path.name for path in runs.iterdir()) == kept
    assert read_run(runs / "1-a.trec") == AFTER
    assert (runs / "2024-mine.trec").read_text() == (runs / "mine.trec").read_text() == "mine"
    assert (runs / "4-d.trec").read_text() == "changed by hand"


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "2-b.trec").write_text("mine")
    with pytest.raises(DataError, match=r"2-b\.trec is there and no earlier comparison's"):
        compare(systems(a=BEFORE, b=AFTER), DATA, ["MRR@10"]).write(tmp_path)
    assert [path.name for path in tmp_path.rglob("*.*")] == ["2-b.trec"], "nothing was written"
    assert (tmp_path / "runs" / "2-b.trec").read_text() == "mine"


def test_a_report_cannot_name_files_elsewhere(tmp_path):
    outside = tmp_path / "x.trec"
    outside.write_text("mine")
    out = tmp_path / "out"
    compare(systems(a=BEFORE, b=AFTER), DATA, ["MRR@10"]).write(out)
    body = json.loads((out / "report.json").read_text())
    body["manifest"]["rankings"]["../../x.trec"] = file_hash(outside)
    (out / "report.json").write_text(json.dumps(body))
    compare(systems(a=BEFORE, b=AFTER), DATA, ["MRR@10"]).write(out)
    assert outside.read_text() == "mine"


def test_an_id_that_trec_cannot_hold_leaves_no_report(tmp_path):
    run = Run({"q1": [("a\tb", 1.0)]})
    found = compare(systems(a=run, b=run), Dataset(PASSAGES, DATA.queries, {"q1": {"a": 1.0}}), ["MRR@10"])
    with pytest.raises(DataError):
        found.write(tmp_path)
    assert not (tmp_path / "report.json").exists()


def test_systems_from_files(tmp_path):
    write_run(tmp_path / "one.trec.gz", BEFORE)
    result = evaluate(QRELS, {"only": AFTER}, ["MRR@10"])
    write_report(tmp_path / "scored", [result.table()])
    found = read_systems([str(tmp_path / "one.trec.gz"), f"x={tmp_path / 'one.trec.gz'}", str(tmp_path / "scored")])
    assert [system.name for system in found] == ["one", "x", "scored"]
    assert found[0].run == BEFORE and found[2].run is None
    mixed = compare(found, DATA)
    assert mixed.evaluation.measures == ["MRR@10"]
    assert mixed.evaluation.values("scored", "MRR@10")["q3"] == 1.0
    with pytest.raises(ConfigError, match="two systems are named 'one'"):
        read_systems([str(tmp_path / "one.trec.gz")] * 2)


def test_a_file_that_holds_no_values_by_query_is_refused(tmp_path):
    bad = tmp_path / "per_query.csv"
    bad.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="expected the columns table,block,system,query_id"):
        read_per_query(bad)
    bad.write_text("table,block,system,query_id,X\n,,s,q,0.5\n,,s,r\n")
    with pytest.raises(DataError, match=r"per_query\.csv:3"):
        read_per_query(bad)
    for cells, said in (("nan", "X is nan"), ("inf", "X is inf"), ("0.5\n,,s,q,0.7", "query 'q' stands there twice")):
        bad.write_text(f"table,block,system,query_id,X\n,,s,q,{cells}\n")
        with pytest.raises(DataError, match=rf"per_query\.csv:\d.*{said}"):
            read_per_query(bad)
    bad.write_text("table,block,system,query_id,X,X\n,,s,q,0.5,0.6\n")
    with pytest.raises(DataError, match="two columns"):
        read_per_query(bad)
    with pytest.raises(DataError, match="cannot be read"):
        read_per_query(tmp_path / "none.csv")


def test_conversations_are_taken_whole_where_the_data_have_them():
    history = (Turn("user", "hello"),)
    queries = [Query(f"c{i // 2}_{i % 2}", f"question {i}", history=history) for i in range(12)]
    data = Dataset(PASSAGES, queries, {query.id: {"a": 1.0} for query in queries})
    before = Run({query.id: [("b", 2.0), ("a", 1.0)] for query in queries})
    after = Run({query.id: [("a", 2.0), ("b", 1.0)] if i < 10 else [("b", 1.0)] for i, query in enumerate(queries)})
    found = compare(systems(a=before, b=after), data, ["RR"])
    change = found.table.cells()["", "b", "RR"].change
    values = [found.evaluation.values(name, "RR") for name in "ab"]
    clusters = {query.id: query.conversation for query in queries}
    assert change.clusters == 6
    assert (change.p, change.low, change.high) == (
        *(significance(*values, clusters=clusters).p,),
        *(getattr(significance(*values, clusters=clusters), end) for end in ("low", "high")),
    )
    plain = compare(systems(a=before, b=after), data, ["RR"], cluster_by="query")
    assert plain.table.clusters is None and plain.table.cells()["", "b", "RR"].change.p < change.p
    # Ids alone are no conversation, unless they are said to be.
    assert (
        compare(
            systems(a=before, b=after), Dataset(PASSAGES, [Query(q.id, q.text) for q in queries], data.qrels)
        ).table.clusters
        is None
    )
    told = [System("a", values={"X": {"c0_0": 1.0}}), System("b", values={"X": {"c0_0": 0.5}})]
    with pytest.raises(ConfigError, match="give the data folder"):
        compare(told, cluster_by="conversation")
    with pytest.raises(ConfigError, match="known: conversation, query"):
        compare(systems(a=before, b=after), data, cluster_by="topic")


def test_ties_may_count_as_expected():
    run = Run({query.id: [("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 1.0)] for query in QUERIES})
    found = compare(systems(a=run, b=AFTER), DATA, ["P@1"], ties="expected")
    assert found.evaluation.mean("a", "P@1") == 0.25
    assert "mean over all orders" in " ".join(found.table.notes)


def test_refusals_name_the_fix():
    with pytest.raises(ConfigError, match="two systems or more"):
        compare(systems(a=BEFORE), DATA)
    with pytest.raises(ConfigError, match="--data"):
        compare(systems(a=BEFORE, b=AFTER))
    with pytest.raises(ConfigError, match="no system is named 'z'; they are: a, b"):
        compare(systems(a=BEFORE, b=AFTER), DATA, before="z")
    with pytest.raises(ConfigError, match="answers of z"):
        compare(systems(a=BEFORE, b=AFTER), DATA, answers={"z": []})
    with pytest.raises(DataError, match="share no measure"):
        compare([System("a", values={"X": {"q": 1.0}}), System("b", values={"Y": {"q": 1.0}})])
    with pytest.raises(ConfigError, match="'b' was not scored by X"):
        compare([System("a", values={"X": {"q": 1.0}}), System("b", values={"Y": {"q": 1.0}})], measures=["X"])


def test_where_less_is_better_an_unknown_value_is_not_the_best_one():
    values = {"s": {"distraction@2": {"q": 0.5}}, "t": {"distraction@2": {"q": 0.4, "r": 0.9}}}
    filled, counts = same_queries(values)
    assert filled == {"s": {"distraction@2": {"q": 0.5}}, "t": {"distraction@2": {"q": 0.4}}}
    assert counts["s"] == counts["t"] == {"not known of every system in distraction@2, left out": 1}
