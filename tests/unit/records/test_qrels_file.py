"""Judgement files."""

import pytest

from utilitune.errors import DataError
from utilitune.records import read_qrels, write_qrels, write_rows

EXPECTED = {"q1": {"007": 1.0, "d 2": 0.25}, "q2": {"d1": -1.0}}


@pytest.mark.parametrize(
    "text",
    [
        "query-id\tcorpus-id\tscore\nq1\t007\t1\nq1\td 2\t0.25\nq2\td1\t-1\n",
        "\ufeffquery_id\tcorpus_id\trelevance\r\nq1\t007\t1\r\n\r\nq1\td 2\t0.25\r\nq2\td1\t-1",
        "q1\t007\t1\nq1\td 2\t0.25\nq2\td1\t-1\n",
        "q1\t0\t007\t1\nq1\t0\td 2\t0.25\nq2\t0\td1\t-1\n",
    ],
)
def test_beir_and_trec_forms(tmp_path, text):
    path = tmp_path / "qrels.tsv"
    path.write_text(text, encoding="utf-8", newline="")
    assert read_qrels(path) == EXPECTED


def test_trec_with_spaces(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_text("q1 0 007 1\nq1   0   d2 2\nq2 0 d1 0\n")
    assert read_qrels(path) == {"q1": {"007": 1.0, "d2": 2.0}, "q2": {"d1": 0.0}}


@pytest.mark.parametrize("name", ["q.tsv", "q.tsv.gz", "q.parquet"])
def test_round_trip(tmp_path, name):
    qrels = {**EXPECTED, "q3": {"x": 0.1 + 0.2, "y": 3.0}}
    write_qrels(tmp_path / name, qrels)
    assert read_qrels(tmp_path / name) == qrels


def test_whole_grades_are_written_without_a_point(tmp_path):
    write_qrels(tmp_path / "q.tsv", {"q": {"d": 2.0, "e": 0.5}})
    assert (tmp_path / "q.tsv").read_text() == "query-id\tcorpus-id\tscore\nq\td\t2\nq\te\t0.5\n"


def test_number_ids_of_a_table_become_strings(tmp_path):
    write_rows(tmp_path / "q.parquet", [{"query-id": 1, "corpus-id": 7, "score": 1}])
    assert read_qrels(tmp_path / "q.parquet") == {"1": {"7": 1.0}}


def test_repeated_lines_merge_and_contradictions_are_refused(tmp_path):
    path = tmp_path / "q.tsv"
    path.write_text("q\td\t1\nq\td\t1.0\n")
    assert read_qrels(path) == {"q": {"d": 1.0}}
    path.write_text("q\td\t1\nq\te\t1\nq\td\t2\n")
    with pytest.raises(DataError, match=r"q\.tsv:3: \(q, d\) has grade 2 here and 1 on line 1"):
        read_qrels(path)


def test_all_bad_lines_at_once(tmp_path):
    path = tmp_path / "q.tsv"
    path.write_text("query-id\tcorpus-id\tscore\nq\td\tyes\nq\n\td\t1\nq\td\tnan\nquery-id\tcorpus-id\tscore\n")
    with pytest.raises(DataError) as caught:
        read_qrels(path)
    for line in (2, 3, 4, 5, 6):
        assert f"{path}:{line}: " in str(caught.value)


@pytest.mark.parametrize(("query", "passage", "grade"), [("q", "d", float("nan")), ("", "d", 1.0), ("q", "d\t", 1.0)])
def test_what_no_file_can_hold_is_refused(tmp_path, query, passage, grade):
    with pytest.raises(DataError):
        write_qrels(tmp_path / "q.tsv", {query: {passage: grade}})
    assert not (tmp_path / "q.tsv").exists()


@pytest.mark.parametrize("first", ["q1\td1\tl", "q1\td1\t", "query-id\tcorpus-id\tl", "q1\td1\tscore"])
def test_a_first_line_with_a_bad_grade_is_no_header(tmp_path, first):
    path = tmp_path / "qrels.tsv"
    path.write_text(f"{first}\nq1\td2\t1\n")
    with pytest.raises(DataError, match=r"qrels\.tsv:1: .*expected"):
        read_qrels(path)


@pytest.mark.parametrize("first", ["QID\tpid\tRelevance", "Query ID\tdocument_id\tgrade", "query-id corpus-id score"])
def test_headers_by_other_names(tmp_path, first):
    path = tmp_path / "qrels.tsv"
    path.write_text(f"{first}\nq1\td2\t1\n")
    assert read_qrels(path) == {"q1": {"d2": 1.0}}


def test_a_header_is_on_the_first_line_alone(tmp_path):
    path = tmp_path / "qrels.tsv"
    path.write_text("q1\td2\t1\nquery-id\tcorpus-id\tscore\n")
    with pytest.raises(DataError, match=r"qrels\.tsv:2"):
        read_qrels(path)
