"""Rewrites are read by the columns that ``utilitune rewrite`` writes, and by no others."""

import json

import pytest

from utilitune.errors import DataError
from utilitune.records import read_rewrites


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_one_text_a_question(tmp_path):
    path = write(tmp_path / "r.jsonl", {"query_id": "q1", "text": "a"}, {"query_id": 2, "text": "b", "more": 1})
    assert read_rewrites(path) == {"q1": "a", "2": "b"}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "q2", "text": "b"}, r"r\.jsonl:2.*'query_id' is missing; found the keys 'id', 'text'"),
        ({"query_id": "q2", "rewrite": "b"}, r"r\.jsonl:2.*'text' is missing"),
        ({"query_id": "q1", "text": "b"}, r"r\.jsonl:2.*second text"),
    ],
)
def test_other_rows_are_refused_with_their_line(tmp_path, row, said):
    with pytest.raises(DataError, match=said):
        read_rewrites(write(tmp_path / "r.jsonl", {"query_id": "q1", "text": "a"}, row))
