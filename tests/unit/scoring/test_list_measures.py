"""One number for a list, by hand."""

from math import log2

import pytest

from utilitune.generator.protocol import Generation
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring import make_utility
from utilitune.scoring.list_measures import LIST_MEASURES

FIRST, SECOND, THIRD = 1.0, 1 / log2(3), 0.5


@pytest.mark.parametrize(
    ("name", "gains", "expected"),
    [
        ("precision", [1.0, 0.0, 0.5], 0.5),
        ("success", [0.2, 0.9, 0.5], 0.9),
        ("ndcg", [0.0, 1.0, 0.0], SECOND),
        ("ndcg", [0.5, 1.0, 0.0], (0.5 * FIRST + SECOND) / (FIRST + 0.5 * SECOND)),
        ("ndcg", [1.0, 0.5, 0.25], 1.0),
        ("ndcg", [0.0, 0.0, 0.6], THIRD),
        ("precision", [], 0.0),
        ("success", [], 0.0),
        ("ndcg", [], 0.0),
        ("ndcg", [0.0, 0.0], 0.0),  # B36: nothing gained is no division by zero
    ],
)
def test_by_hand(name, gains, expected):
    assert LIST_MEASURES[name](gains) == pytest.approx(expected)


def test_erag_over_a_list_asks_for_each_passage_alone():
    query = Query("q", "What is the capital of Lubana?", answers=("Veltra",))
    passages = [Passage("p", "Lubana is green."), Passage("r", "Veltra is the capital of Lubana.")]
    utility = make_utility("erag,metric=EM,over=ndcg")
    assert utility.name == "erag,metric=EM,over=ndcg" and utility.parameters["over"] == "ndcg"
    asked = utility.requests(query, passages)
    alone = make_utility("erag")
    assert list(asked.values()) == [alone.requests(query, [each])["grounded"] for each in passages]
    responses = {
        name: Generation(text, ("t",), (1,), (-1.0,), None)
        for name, text in zip(asked, ("Orlen", "Veltra"), strict=True)
    }
    value = utility.value(query, passages, responses)
    assert value.utility == pytest.approx(SECOND)
    assert value.evidence["gains"] == [0.0, 1.0]
    assert utility.requests(query, []) == {}
    assert utility.value(query, [], {}).utility == 0.0
