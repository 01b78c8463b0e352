"""docs/metrics.md, rule by rule, beside pytrec_eval and ir-measures; its snippets run."""

import math
import re
from pathlib import Path

import ir_measures
import pytest
import pytrec_eval

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation import evaluate, udcg
from utilitune.records import Run, read_run

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
NAMES = {
    "RR": "recip_rank",
    "nDCG": "ndcg",
    "nDCG@10": "ndcg_cut_10",
    "R@5": "recall_5",
    "R@10": "recall_10",
    "P@5": "P_5",
    "P@10": "P_10",
    "Success@1": "success_1",
    "Success@5": "success_5",
    "AP": "map",
    "AP@10": "map_cut_10",
}
UDCG = {"UDCG@3", "rawUDCG@3"}


def ours(qrels, run, *names, **options):
    return evaluate(qrels, Run({q: list(scores.items()) for q, scores in run.items()}), names or NAMES, **options)


def trec(qrels, run):
    # Negatives clipped: pytrec_eval 0.5.11 may never return from a query whose grades are all negative.
    integers = {q: {p: max(int(g), 0) for p, g in grades.items()} for q, grades in qrels.items()}
    return pytrec_eval.RelevanceEvaluator(integers, set(NAMES.values())).evaluate(run)


@pytest.mark.parametrize("snippet", re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
def test_snippets_of_the_page_run(snippet):
    exec(compile(snippet, str(PAGE), "exec"), {})


def test_the_page_names_every_measure():
    from utilitune.evaluation.measures import ALIASES, FAMILIES

    for name in [*FAMILIES, *ALIASES]:
        assert f"`{name}" in PAGE.read_text(), name


# B33: three equal scores, the relevant passage renamed.
@pytest.mark.parametrize("relevant", ["b", "z"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_ties_as_trec_eval(relevant, order):
    ids = ["a", relevant, "c"]
    run = {"q": {ids[i]: 1.0 for i in order}}
    qrels = {"q": {relevant: 1.0}}
    result = ours(qrels, run)
    theirs = trec(qrels, run)["q"]
    assert {name: result.mean("run", name) for name in NAMES} == pytest.approx(
        {name: theirs[their] for name, their in NAMES.items()}
    )
    assert result.mean("run", "RR") == (1.0 if relevant == "z" else 0.5)
    assert result.counts["run"]["tied passages"] == 3


def test_a_constant_scorer_of_a_hundred_has_no_perfect_rank():
    run = {"q": {f"d{i:03d}": 1.0 for i in range(100)}}
    assert ours({"q": {"d000": 1.0}}, run, "RR", "nDCG@10").means()["run"] == {"RR": 0.01, "nDCG@10": 0.0}


# B34: q2 judged and missing, q9 in the run and not judged, then q1 with an empty list.
def test_missing_queries_beside_both_libraries():
    qrels = {"q1": {"a": 1.0}, "q2": {"b": 1.0}}
    run = {"q1": {"a": 1.0}, "q9": {"a": 1.0}}
    rr = ir_measures.RR
    assert ours(qrels, run).mean("run", "RR") == ir_measures.calc_aggregate([rr], qrels_int(qrels), run)[rr] == 0.5
    assert [q for q in trec(qrels, run) if q in qrels] == ["q1"]
    assert ours(qrels, run, only_answered=True).mean("run", "RR") == 1.0
    empty = ours(qrels, {"q1": {}, "q9": {"a": 1.0}})
    assert all(value == 0.0 for value in empty.means()["run"].values())
    assert empty.coverage("run") == "scored 2 = 1 answered (1 with an empty list) + 1 missing; 1 unjudged"


def qrels_int(qrels):
    return {q: {p: int(g) for p, g in grades.items()} for q, grades in qrels.items()}


@pytest.mark.parametrize("name", sorted({*NAMES, "MRR@10", *UDCG}))
def test_every_measure_counts_missing_and_empty_as_zero(name):
    qrels = {f"q{i}": {"a": 1.0} for i in range(4)}
    run = {"q0": {"a": 1.0}, "q1": {}}
    utilities = {"q0": {"a": 1.0}}
    values = ours(qrels, run, name, utilities=utilities).per_query["run"][name]
    assert (values["q1"], values["q2"], values["q3"]) == (0.0, 0.0, 0.0)
    assert values["q0"] > 0


# B36: fractional, all-zero and negative gains; a cut-off beyond the list.
def test_fractional_gains_beside_pytrec_eval_on_whole_multiples():
    gains = {"a": 0.75, "b": -0.5, "c": 0.0, "d": 0.25}
    run = {"q": {"b": 4.0, "a": 3.0, "c": 2.0, "d": 1.0}}
    result = ours({"q": gains}, run, "nDCG", "nDCG@2")
    whole = trec({"q": {p: max(0, int(4 * g)) for p, g in gains.items()}}, run)["q"]["ndcg"]
    assert result.mean("run", "nDCG") == pytest.approx(whole)
    assert result.mean("run", "nDCG@2") == pytest.approx(0.75 / math.log2(3) / (0.75 + 0.25 / math.log2(3)))
    with pytest.raises(TypeError):
        pytrec_eval.RelevanceEvaluator({"q": gains}, {"ndcg"})
    for name in ("RR", "R@5", "P@5", "Success@1", "AP"):
        with pytest.raises(ConfigError, match="relevant_from"):
            ours({"q": gains}, run, name)
    assert ours({"q": gains}, run, "P@5", relevant_from=0.25).mean("run", "P@5") == pytest.approx(0.4)


@pytest.mark.parametrize("gains", [{"a": 0.0, "b": 0.0}, {"a": -1.0, "b": -2.0}])
def test_all_zero_queries_leave_ndcg_and_count_zero_elsewhere(gains):
    qrels, run = {"q": gains, "r": {"a": 1.0}}, {"q": {"a": 2.0, "b": 1.0}, "r": {"a": 1.0}}
    result = ours(qrels, run)
    theirs = trec(qrels, run)["q"]
    assert theirs["ndcg"] == 0.0
    for name, their in NAMES.items():
        assert ("q" in result.values("run", name)) == (not name.startswith("nDCG"))
        if not name.startswith("nDCG"):
            assert result.values("run", name)["q"] == theirs[their] == 0.0
    assert result.counts["run"]["without a positive grade (not in nDCG)"] == 1


@pytest.mark.parametrize("length", [0, 1, 2])
def test_short_lists_are_padded_with_nothing(length):
    qrels = {"q": {"a": 1.0, "b": 2.0, "z": 1.0}}
    run = {"q": {pid: 5.0 - i for i, pid in enumerate("ab"[:length])}}
    result = ours(qrels, run)
    theirs = trec(qrels, run).get("q", {})
    assert {name: result.mean("run", name) for name in NAMES} == pytest.approx(
        {name: theirs.get(their, 0.0) for name, their in NAMES.items()}
    )


def test_udcg_divides_a_short_list_by_its_own_length():
    value = ours({"q": {"a": 1.0}}, {"q": {"a": 2.0, "b": 1.0}}, "UDCG@10", utilities={"q": {"a": 0.9, "b": 0.6}})
    assert value.mean("run", "UDCG@10") == udcg([0.9, 0.6], [True, False])


def test_duplicates_count_once_at_their_best_place_and_are_refused_in_files(tmp_path):
    run = Run({"q": [("x", 3.0), ("a", 2.0), ("x", 1.0), ("b", 0.5)]})
    result = evaluate({"q": {"b": 1.0}}, run, ["RR", "P@3"])
    assert result.means()["run"] == pytest.approx({"RR": 1 / 3, "P@3": 1 / 3})
    assert result.counts["run"]["duplicate passages"] == 1
    path = tmp_path / "run.trec"
    path.write_text("q Q0 a 1 2.0 t\nq Q0 a 2 1.0 t\n")
    with pytest.raises(DataError, match=r"run\.trec:2"):
        read_run(path)


def test_counts_stand_beside_the_means_in_every_rendering():
    from utilitune.evaluation import markdown_table, render_table

    result = ours({"q1": {"a": 1.0}, "q2": {"b": 1.0}}, {"q1": {"a": 1.0}, "q9": {"a": 1.0}}, "RR")
    for text in (render_table(result.table()), markdown_table(result.table())):
        assert "scored 2 = 1 answered + 1 missing; 1 unjudged" in text
