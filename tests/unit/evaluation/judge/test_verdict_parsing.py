"""A verdict is read only where there is exactly one."""

import json

import pytest

from utilitune.evaluation.judge.verdict import parse_json, parse_letter, parse_winner


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("Answer 1", "first"),
        ("answer_2", "second"),
        ("2", "second"),
        ("The answer B.", "second"),
        ("**Answer 1**", "first"),
        ("Tie", "tie"),
        ("neither", "tie"),
        ("Answer 1, Answer 2 or Tie", None),
        ("Answer 1 and Answer 2", None),
        ("Answer 12", None),
        ("Answer 3", None),
        ("not Answer 1", None),
        ("", None),
    ],
)
def test_winner(text, position):
    assert parse_winner(text) == position


@pytest.mark.parametrize(
    ("reply", "position"),
    [
        ("A", "first"),
        (" B.", "second"),
        ("Answer B", "second"),
        ("b) because it is longer", "second"),
        ("A: the first names the year", "first"),
        ("Tie", "tie"),
        ("A better answer is B", None),
        ("A or B", None),
        ("Both A and B", None),
        ("Bad", None),
        ("", None),
    ],
)
def test_letter(reply, position):
    assert parse_letter(reply) == position


DIMENSIONS = ("Diversity", "Overall")


def test_json_as_published():
    reply = json.dumps(
        {
            "Diversity": {"Winner": "Answer 2", "Explanation": 'says "Answer 1" { is } narrow'},
            "Overall Winner": {"Winner": "Answer 1", "Explanation": "x"},
        }
    )
    wanted = {"Diversity": "second", "Overall": "first"}
    assert parse_json(reply, DIMENSIONS) == wanted
    assert parse_json(f"Here you are {{as asked}}:\n```json\n{reply}\n```\nBye", DIMENSIONS) == wanted
    assert parse_json('{"diversity": "Answer 2", "OVERALL": 1}', DIMENSIONS) == wanted


def test_json_without_a_clear_winner():
    reply = '{"Diversity": {"Winner": "Answer 1, Answer 2 or Tie"}, "Overall": {"Winner": "Tie"}}'
    assert parse_json(reply, DIMENSIONS) == {"Diversity": None, "Overall": "tie"}
    for reply in (
        "Answer 1 is better.",
        "",
        "{}",
        "[1]",
        '{"Overall": null, "x": {}}',
        '{"Overall": true}',
        "{" * 5000,
    ):
        assert parse_json(reply, DIMENSIONS) == {"Diversity": None, "Overall": None}


def test_json_that_was_cut_keeps_what_is_whole():
    reply = '{"Diversity": {"Winner": "Answer 1", "Reason": "more"}, "Overall": {"Winner": "Ans'
    assert parse_json(reply, DIMENSIONS) == {"Diversity": "first", "Overall": None}
