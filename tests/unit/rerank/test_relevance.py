"""Signed utilities: what is relevant by judgements, by answers, by a proxy."""

from __future__ import annotations

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.records import Dataset, Labels, Passage, Query, UtilityLabel
from utilitune.rerank import Relevance, build_groups, read_groups, write_groups

CORPUS = [
    Passage("p0", "The mill was built by Corin."),
    Passage("p1", "The mill was built by Alba of Corinth."),
    Passage("p2", "A river runs through the town."),
    Passage("p3", "a  river runs through the Town."),
]
U = {"p0": 0.9, "p1": 0.6, "p2": 0.3}


def row(query, passage, utility, name="abstention"):
    return UtilityLabel(query, (passage,), utility, "ok", f"{name}@0000aaaa")


def labels_of(*queries, gains=None):
    rows = [row(query, passage, value) for query in queries for passage, value in U.items()]
    rows += [
        row(query, passage, value, "question-gain") for query in queries for passage, value in (gains or {}).items()
    ]
    return Labels(rows)


def dataset(*queries, qrels=None):
    return Dataset(CORPUS, [*queries], qrels or {})


def test_gold_by_hand():
    data = dataset(Query("q", "Who built the mill?"), qrels={"q": {"p1": 1.0, "p2": 0.0}})
    groups = build_groups(labels_of("q"), data, relevance=Relevance("gold"), rescale="none")
    assert groups[0].utilities == pytest.approx((-0.3, 0.6, -0.1))
    assert groups[0].targets == groups[0].utilities
    half = build_groups(labels_of("q"), data, relevance=Relevance("gold", gamma=0.5), rescale="none")
    assert half[0].utilities == pytest.approx((-0.45, 0.6, -0.15))
    high = build_groups(labels_of("q"), data, relevance=Relevance("gold", 2.0), rescale="none")
    assert high[0].utilities == pytest.approx((-0.3, -0.2, -0.1))
    assert high.drops["queries without a relevant candidate (kept)"] == 1


def test_answer_is_found_as_whole_words():
    data = dataset(Query("q", "Who built the mill?", answers=("Corin",)))
    (group,) = build_groups(labels_of("q"), data, relevance=Relevance("answer"), rescale="none")
    assert group.utilities == pytest.approx((0.9, -0.2, -0.1))  # Corinth is not Corin


def test_a_proxy_needs_neither_judgements_nor_answers():
    data = dataset(Query("q", "Who built the mill?"))
    labels = labels_of("q", gains={"p0": 0.2, "p1": 2.5, "p2": 1.5})
    best = build_groups(labels, data, relevance=Relevance("question-gain"), rescale="none")
    assert best[0].utilities == pytest.approx((-0.3, 0.6, -0.1))
    assert best.label_sets == ("abstention@0000aaaa",)
    above = build_groups(labels, data, relevance=Relevance("question-gain", 1.0), rescale="none")
    assert above[0].utilities == pytest.approx((-0.3, 0.6, 0.3))


def test_a_candidate_without_its_proxy_is_left_out():
    data = dataset(Query("q", "Who built the mill?"))
    groups = build_groups(
        labels_of("q", gains={"p0": 0.2, "p1": 2.5}), data, relevance=Relevance("question-gain"), rescale="none"
    )
    assert groups[0].passage_ids == ("p0", "p1")
    assert groups.drops["candidates lacking a utility"] == 1


def test_queries_that_the_source_says_nothing_about_are_dropped_and_counted():
    queries = Query("q", "Who built the mill?", answers=("Corin",)), Query("r", "Which river?")
    data = dataset(*queries, qrels={"r": {"p2": 1.0}})
    by_answer = build_groups(labels_of("q", "r"), data, relevance=Relevance("answer"))
    assert [group.query_id for group in by_answer] == ["q"]
    assert by_answer.drops["queries that 'answer' says nothing about"] == 1
    by_gold = build_groups(labels_of("q", "r"), data, relevance=Relevance("gold"))
    assert [group.query_id for group in by_gold] == ["r"]


def test_of_merged_passages_one_judged_one_is_enough():
    corpus = [Passage("a", "same text"), Passage("b", "same  text"), Passage("c", "something else")]
    labels = Labels([row("q", "a", 0.8), row("q", "b", 0.4), row("q", "c", 0.9)])
    data = Dataset(corpus, [Query("q", "x")], {"q": {"b": 1.0}})
    (group,) = build_groups(labels, data, relevance=Relevance(), rescale="none")
    assert group.passage_ids == ("a", "c") and group.utilities == pytest.approx((0.6, -0.3))


def test_what_cannot_be_signed_is_refused():
    data = dataset(Query("q", "Who built the mill?"), qrels={"q": {"p1": 1.0}})
    gains = {"p0": 0.2, "p1": 2.5, "p2": 1.5}
    with pytest.raises(ConfigError, match=r"signs one utility, found 2 .*utilities: \[abstention\]"):
        build_groups(labels_of("q", gains=gains), data, relevance=Relevance())
    with pytest.raises(DataError, match=r"2\.5.*within \[0, 1\]"):
        build_groups(labels_of("q", gains=gains), data, utilities=["question-gain"], relevance=Relevance())
    with pytest.raises(DataError, match=r"no labels of utility 'golden'.*abstention@0000aaaa"):
        build_groups(labels_of("q"), data, relevance=Relevance("golden"))
    with pytest.raises(ConfigError, match="gamma is 2"):
        build_groups(labels_of("q"), data, relevance=Relevance(gamma=2.0))
    with pytest.raises(ConfigError, match="takes no threshold"):
        build_groups(labels_of("q"), data, relevance=Relevance("answer", 0.5))


def test_the_rule_travels_with_the_groups(tmp_path):
    data = dataset(Query("q", "Who built the mill?"), qrels={"q": {"p1": 1.0}})
    made = build_groups(labels_of("q"), data, relevance=Relevance("gold", gamma=0.5), rescale="none")
    write_groups(tmp_path / "groups.jsonl", made)
    assert read_groups(tmp_path / "groups.jsonl") == made
    assert made.account()["relevance"] == {"source": "gold", "threshold": None, "gamma": 0.5}
