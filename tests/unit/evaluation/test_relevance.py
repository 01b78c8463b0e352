"""Relevance by containment and by the labels of a utility, in place of judgements."""

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation import evaluate
from utilitune.evaluation.compare import System, compare
from utilitune.evaluation.relevance import (
    check_relevance,
    qrels_by_labels,
    read_relevance,
    relevance_name,
    relevance_qrels,
)
from utilitune.records import Dataset, Labels, Passage, Query, Run, UtilityLabel, write_labels

NUMBERS = {("q1", "a"): 0.9, ("q1", "b"): 0.4, ("q2", "a"): 0.2, ("q2", "c"): 0.1}
CORPUS = [Passage("a", "Eke lies on the Orla."), Passage("b", "Eke is old."), Passage("c", "The Mira is long.")]
QUERIES = [
    Query("q1", "On which river is Eke?", answers=("Orla",)),
    Query("q2", "Which river is long?", answers=("Mira",)),
    Query("q3", "What else?"),
]
WORLD = Dataset(CORPUS, QUERIES, {}, "world")
RUN = Run({"q1": [("b", 2.0), ("a", 1.0)], "q2": [("b", 2.0), ("c", 1.0)]})


def labels(numbers=None, name="llm-relevance@0a1b2c3d"):
    numbers = NUMBERS if numbers is None else numbers
    return Labels([UtilityLabel(q, (p,), value, "ok", name) for (q, p), value in numbers.items()])


def test_labels_by_hand():
    """A threshold for all; without one the best of each query, however low its number, and all that equal it."""
    assert qrels_by_labels(labels(), 0.3) == {"q1": {"a": 1.0, "b": 1.0}, "q2": {"a": 0.0, "c": 0.0}}
    assert qrels_by_labels(labels(), None) == {"q1": {"a": 1.0, "b": 0.0}, "q2": {"a": 1.0, "c": 0.0}}
    tied = labels({("q1", "a"): -0.5, ("q1", "b"): -0.5, ("q1", "c"): -0.6})
    assert qrels_by_labels(tied, None) == {"q1": {"a": 1.0, "b": 1.0, "c": 0.0}}


def test_a_label_that_failed_is_no_judgement():
    rows = [*labels(), UtilityLabel("q1", ("c",), None, "failed", "llm-relevance@0a1b2c3d")]
    assert "c" not in qrels_by_labels(Labels(rows), None)["q1"]


def test_containment_looks_at_what_runs_found():
    assert relevance_qrels(WORLD, "contains", [RUN]) == {"q1": {"b": 0.0, "a": 1.0}, "q2": {"b": 0.0, "c": 1.0}}
    assert relevance_qrels(WORLD, "contains", [{"q1": [("a", 1.0)]}]) == {"q1": {"a": 1.0}, "q2": {}}
    with pytest.raises(DataError, match="'nowhere' of a run for query 'q1'"):
        relevance_qrels(WORLD, "contains", [{"q1": [("nowhere", 1.0)]}])


def test_every_measure_reads_the_labels():
    """q1: b, a with a relevant, RR 1/2; q2: b, c with only a relevant, RR 0; b of q2 has no label."""
    utilities = {"q1": {"a": 0.6, "b": 0.3}, "q2": {"b": 0.9, "c": 0.3}}
    result = evaluate(WORLD, {"run": RUN}, ["RR", "rawUDCG@2"], utilities=utilities, relevance=labels())
    assert result.per_query["run"]["RR"] == {"q1": 0.5, "q2": 0.0}
    assert result.per_query["run"]["rawUDCG@2"] == pytest.approx({"q1": (0.6 - 0.1) / 2, "q2": (-0.3 - 0.1) / 2})
    assert result.counts["run"]["retrieved passages without a relevance label"] == 1
    assert any("llm-relevance@0a1b2c3d, best of each query" in note for note in result.notes)
    assert not any("of the judgements" in note for note in result.notes)
    low = evaluate(WORLD, {"run": RUN}, ["RR"], relevance=labels(), relevant_from=0.05)
    assert low.per_query["run"]["RR"] == {"q1": 1.0, "q2": 0.5}


def test_judgements_of_the_data_are_left_aside_and_equal_ones_give_the_same():
    told = {"q1": {"a": 1.0, "b": 0.0}, "q2": {"a": 1.0, "c": 0.0}}
    people = Dataset(CORPUS, QUERIES, told)
    others = Dataset(CORPUS, QUERIES, {"q1": {"b": 1.0}})
    by_people = evaluate(people, {"run": RUN}, ["RR", "nDCG", "R@2"])
    by_labels = evaluate(others, {"run": RUN}, ["RR", "nDCG", "R@2"], relevance=labels())
    assert by_labels.per_query == by_people.per_query
    assert by_people.notes == []


def test_a_query_for_which_no_run_found_anything_counts_0():
    result = evaluate(WORLD, {"run": Run({"q1": RUN["q1"]})}, ["RR"], relevance="contains")
    assert result.per_query["run"]["RR"] == {"q1": 0.5, "q2": 0.0}
    assert result.counts["run"]["missing"] == 1


def test_comparisons_take_it_and_show_it():
    other = Run({"q1": [("a", 2.0), ("b", 1.0)], "q2": [("c", 2.0)]})
    found = compare([System("x", run=RUN), System("y", run=other)], WORLD, ["RR"], relevance="contains")
    assert found.evaluation.per_query["x"]["RR"] == {"q1": 0.5, "q2": 0.5}
    assert found.evaluation.per_query["y"]["RR"] == {"q1": 1.0, "q2": 1.0}
    assert any("relevance: contains" in note for note in found.evaluation.notes)


def test_names():
    assert relevance_name("judged") == "judged"
    assert relevance_name(labels(), 0.5) == "llm-relevance@0a1b2c3d, from 0.5"


def test_read_relevance(tmp_path):
    both = Labels([*labels(), *labels(name="abstention@00000000")])
    write_labels(tmp_path / "one.jsonl", labels())
    write_labels(tmp_path / "two.jsonl", both)
    assert read_relevance("contains") == "contains"
    assert list(read_relevance(str(tmp_path / "one.jsonl"))) == list(labels())
    assert list(read_relevance(f"llm-relevance={tmp_path / 'two.jsonl'}")) == list(labels())
    with pytest.raises(ConfigError, match=r"two\.jsonl has no labels of 'gain'; it has: llm-relevance, abstention"):
        read_relevance(f"gain={tmp_path / 'two.jsonl'}")
    with pytest.raises(ConfigError, match="found 'llm', expected one of: judged, contains, or a file of labels"):
        read_relevance("llm")
    with pytest.raises(DataError, match="of several label sets"):
        check_relevance(read_relevance(str(tmp_path / "two.jsonl")), None)


@pytest.mark.parametrize(
    ("relevance", "relevant_from", "error", "said"),
    [
        ("llm", None, ConfigError, "known: judged, contains, and labels"),
        ("contains", 0.5, ConfigError, "takes no relevant_from"),
        (labels(), float("nan"), ConfigError, "finite utility"),
        (Labels([]), None, DataError, "hold no number"),
        (Labels([UtilityLabel("q1", ("a", "b"), 0.5, "ok", "x@1")]), None, DataError, "hold no number"),
        (labels({("other", "a"): 1.0}), None, DataError, "share no query"),
    ],
)
def test_refusals(relevance, relevant_from, error, said):
    with pytest.raises(error, match=said):
        relevance_qrels(WORLD, relevance, [RUN], relevant_from)


def test_plain_judgements_have_no_texts_and_no_queries():
    with pytest.raises(ConfigError, match="give the data set"):
        evaluate({"q1": {"a": 1.0}}, RUN, ["RR"], relevance="contains")
