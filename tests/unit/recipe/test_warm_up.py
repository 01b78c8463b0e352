"""What a cross-encoder warms up on: a retriever's scores, spread over its depth, on questions without labels."""

import pytest

from utilitune.errors import DataError
from utilitune.recipe import run_recipe
from utilitune.recipe.stages.warm_up import _questions, spread, starting_point
from utilitune.recipe.workspace import Workspace
from utilitune.records import Run

DEEP = Run({"q": [(f"p{rank}", 10.0 - rank) for rank in range(10)], "short": [("a", 2.0), ("b", 1.0)], "none": []})


def test_candidates_are_spread_over_the_depth_and_begin_with_the_first():
    rows = [(row.query_id, row.passage_ids[0], row.utility) for row in spread(DEEP, 3)]
    assert rows == [
        ("q", "p0", 10.0),
        ("q", "p3", 7.0),
        ("q", "p6", 4.0),
        ("short", "a", 2.0),
        ("short", "b", 1.0),
    ]
    assert {row.name for row in spread(DEEP, 3)} == {"retriever-score"}


def test_questions_are_others_than_the_labelled_ones(recipe):
    made = recipe("reranker.train_queries=3", "reranker.warm_up={retriever: bm25, queries: 5}")
    run_recipe(made, only=["data"])
    workspace = Workspace(made)
    labelled = {query.id for query in workspace.queries("train_questions", 3)}
    others = {query.id for query in _questions(workspace, 5)}
    assert len(labelled) == 3 and len(others) == 1 and not labelled & others
    assert not others & {*workspace.split["test_questions"]}
    every = Workspace(recipe("reranker.train_queries=4", "reranker.warm_up={retriever: bm25, queries: 5}"))
    with pytest.raises(DataError, match=r"all 4 training questions are labelled.*lower reranker.train_queries"):
        _questions(every, 5)
    assert len(_questions(Workspace(recipe()), 5)) == 4


def test_trainings_start_from_it_where_there_is_one(recipe):
    assert starting_point(Workspace(recipe())) == recipe().reranker.base
    warm = recipe("reranker.warm_up={retriever: bm25, queries: 5}")
    assert starting_point(Workspace(warm)) == warm.out / "warm-up"
