"""The orders that the table compares: names, best orders, candidates and judgements as labels."""

import pytest

from utilitune.recipe.schema import RerankerSection
from utilitune.recipe.stages.reranker_labels import gold_labels, training_candidates, training_groups
from utilitune.recipe.stages.reranker_systems import answer_file, best_order, candidate_utilities, reranked_rows, slug
from utilitune.recipe.workspace import Workspace
from utilitune.records import Labels, Run, UtilityLabel, write_labels, write_run

RUN = Run({"q": [("a", 3.0), ("b", 2.0), ("c", 1.0)]})


def test_rows_come_in_the_order_of_the_table():
    assert reranked_rows(RerankerSection()) == ["tuned reranker"]
    asked = {"untrained": True, "warm_up": {"queries": 5}, "interpolate": True}
    whole = RerankerSection(rivals=["gold", "entropy-drop"], **asked)
    assert reranked_rows(whole) == [
        "untrained weights",
        "warmed up, no label",
        "trained on gold relevance",
        "trained on gold relevance + first stage",
        "trained on entropy-drop",
        "trained on entropy-drop + first stage",
        "tuned reranker",
        "tuned reranker + first stage",
    ]
    assert len({slug(row) for row in reranked_rows(whole)}) == 8


def test_the_answers_that_the_page_shows_keep_their_names():
    assert answer_file("bm25", "first stage", 3, 3) == "bm25.before.jsonl"
    assert answer_file("bm25", "tuned reranker", 3, 3) == "bm25.after.jsonl"
    assert answer_file("bm25", "tuned reranker", 1, 3) == "orders/bm25.tuned-reranker.top1.jsonl"
    assert answer_file("bm25", "trained on grogu:max", 3, 3) == "orders/bm25.trained-on-grogu-max.top3.jsonl"


def test_the_best_order_keeps_ties_and_puts_unknown_ones_last():
    order = {name: [pid for pid, _ in best_order(RUN, worth, **rest)["q"]] for name, worth, rest in (
        ("judged", {"q": {"c": 1.0}}, {"missing": 0.0}),
        ("distracting", {"q": {"a": -1.0}}, {"missing": 0.0}),
        ("utility", {"q": {"b": -5.0, "c": -1.0}}, {}),
        ("none", {}, {}),
    )}  # fmt: skip
    assert order == {
        "judged": ["c", "a", "b"],
        "distracting": ["b", "c", "a"],
        "utility": ["c", "b", "a"],
        "none": ["a", "b", "c"],
    }


@pytest.fixture
def two(recipe):
    """Two first stages, the second one a copy of the first by another name."""
    made = recipe("retrievers.other={kind: bm25}", "reranker={first_stage: [bm25, other], train_depth: 2, depth: 4}")
    folder = made.out / "retrieve"
    write_run(folder / "bm25.train.trec", Run({"q0": [("p0", 3.0), ("p1", 2.0), ("p2", 1.0)], "q1": [("p1", 1.0)]}))
    write_run(folder / "other.train.trec", Run({"q0": [("p3", 3.0), ("p0", 2.0), ("p4", 1.0)], "q1": []}))
    return Workspace(made)


def test_candidates_of_several_first_stages_come_in_turns_each_once(two):
    assert {query: [pid for pid, _ in scored] for query, scored in training_candidates(two).items()} == {
        "q0": ["p0", "p3", "p1"],
        "q1": ["p1"],
    }


def test_judgements_are_labels_of_the_same_candidates(two):
    rows = [(row.query_id, row.passage_ids, row.utility, row.name) for row in gold_labels(two)]
    assert rows == [
        ("q0", ("p0",), 1.0, "gold"),
        ("q0", ("p3",), 0.0, "gold"),
        ("q0", ("p1",), 0.0, "gold"),
        ("q1", ("p1",), 1.0, "gold"),
    ]


def test_relevance_signs_the_labels_of_the_training(recipe):
    given = "reranker={utilities: [abstention], training: {loss: udcg, relevance: gold, gamma: 0.5}}"
    workspace = Workspace(recipe(given))
    rows = [UtilityLabel("q0", (pid,), u, "ok", "abstention@x") for pid, u in (("p0", 0.9), ("p3", 0.8), ("p1", 0.2))]
    write_labels(workspace.folder("label") / "labels.jsonl", Labels(rows))
    groups = training_groups(workspace)
    assert groups[0].targets == pytest.approx((0.9, -0.4, -0.1)) and groups.rule == "none"


def test_several_utilities_order_by_the_mean_of_their_z_scores(two):
    def rows(name, values):
        return [UtilityLabel("q", (pid,), value, "ok", f"{name}@x") for pid, value in values.items()]

    # One counts in ones, the other in thousands: neither may decide alone.
    both = [*rows("u", {"a": 0.0, "b": 1.0, "c": 2.0}), *rows("v", {"a": 3000.0, "b": 2000.0})]
    write_labels(two.folder("label-test") / "labels.jsonl", Labels(both))
    assert candidate_utilities(two) == {"q": {"a": 0.0, "b": 0.0}}
    write_labels(two.folder("label-test") / "labels.jsonl", Labels(both[:3]))
    assert candidate_utilities(two) == {"q": {"a": 0.0, "b": 1.0, "c": 2.0}}
