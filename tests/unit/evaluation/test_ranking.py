"""The one ranking: trec_eval's tie rule, whatever order the run comes in."""

import random

import pytest

from utilitune.errors import DataError
from utilitune.evaluation import rank_run, ranking
from utilitune.records import Run

NAN, INF = float("nan"), float("inf")


def test_score_descending_then_id_descending():
    assert ranking([("a", 1.0), ("c", 1.0), ("b", 1.0), ("d", 0.5), ("e", 2.0)]) == [
        ("e", 2.0),
        ("c", 1.0),
        ("b", 1.0),
        ("a", 1.0),
        ("d", 0.5),
    ]


def test_order_given_plays_no_part():
    scored = [(f"d{i}", float(i % 4)) for i in range(30)]
    shuffled = scored[:]
    random.Random(0).shuffle(shuffled)
    assert ranking(shuffled) == ranking(scored)


def test_ids_compare_as_text_not_as_numbers():
    assert [pid for pid, _ in ranking([("10", 1.0), ("9", 1.0), ("é", 1.0), ("z", 1.0)])] == ["é", "z", "9", "10"]


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_scores_that_are_not_finite_rank_last(bad):
    assert [pid for pid, _ in ranking([("a", bad), ("b", 0.9), ("c", -5.0)])] == ["b", "c", "a"]


def test_a_score_that_is_no_number_is_refused():
    with pytest.raises(DataError, match="not a number"):
        ranking([("a", None)])


def test_counts():
    ranked = rank_run(
        Run({"q": [("a", 1.0), ("b", 1.0), ("c", NAN), ("d", 0.0), ("d", 0.5)], "r": [], "z": [("a", 1.0)]}),
        ["q", "r", "missing"],
    )
    assert ranked.order == {"q": ["b", "a", "d", "c"], "r": []}
    assert (ranked.retrieved, ranked.tied, ranked.non_finite, ranked.duplicates) == (4, 2, 1, 1)
    assert ranked.tie_rate == 0.5
    assert rank_run(Run(), ["q"]).tie_rate == 0.0
