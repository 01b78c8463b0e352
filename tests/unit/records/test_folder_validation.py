"""What `validate_folder` counts, lists and lets pass."""

import gzip
import json
from array import array

import numpy as np
import pytest

from utilitune.errors import DataError
from utilitune.records import load_dataset, validate_folder
from utilitune.records.validation import quantiles


def write(root, name, *rows):
    root.mkdir(exist_ok=True)
    (root / name).write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))


@pytest.fixture
def good(tmp_path):
    root = tmp_path / "good"
    write(root, "corpus.jsonl", *({"_id": f"d{i}", "title": "t", "text": "w " * i} for i in range(1, 21)))
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": " "}]
    write(
        root,
        "queries.jsonl",
        {"_id": "c_1", "text": "a", "answers": "x", "rewrite": "b"},
        {"_id": "c_2", "text": "a b c", "history": turns, "answers": []},
    )
    write(root, "qrels.tsv", "query-id\tcorpus-id\tscore", "c_1\td1\t1", "c_1\td2\t0.5", "c_2\td3\t1")
    return root


def test_counts(good):
    report = validate_folder(good)
    assert report.ok
    assert report.counts == {
        "passages": 20, "queries": 2, "with history": 1, "with answers": 1, "with rewrite": 1, "judgements": 3,
        "judged queries": 2, "empty assistant turns kept": 1,
    }  # fmt: skip
    # Title and i words, i = 1 … 20: lengths 2 … 21.
    assert report.lengths == {
        "passages": {"p5": 2, "p50": 11, "p95": 20, "max": 21},
        "questions": {"p5": 1, "p50": 1, "p95": 3, "max": 3},
    }
    text = report.text()
    assert text.endswith("\nok")
    assert "p50 11" in text
    assert json.loads(json.dumps(report.as_dict()))["ok"] is True


def test_quantiles_agree_with_numpy():
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 19, 20, 60, 100, 1001):
        values = rng.integers(0, 300, size)
        expected = [int(np.quantile(values, q, method="inverted_cdf")) for q in (0.05, 0.5, 0.95, 1)]
        assert list(quantiles(array("L", values.tolist())).values()) == expected
    assert set(quantiles(array("L")).values()) == {0}


def test_every_problem_at_once(tmp_path):
    root = tmp_path / "bad"
    write(
        root,
        "corpus.jsonl",
        {"_id": "d1", "text": "red"},
        {"_id": "d1", "text": "blue"},
        "{torn",
        {"_id": "007", "text": "x"},
        {"_id": "e", "text": " ", "title": ""},
        {"_id": "t", "text": "", "title": "only a title"},
        {"_id": 5, "text": "number"},
        {"_id": "d1", "text": "red"},
        '{"_id": "k", "text": "a", "text": "b"}',
        '{"_id": "n", "text": "a", "score": NaN}',
    )
    write(
        root, "queries.jsonl", {"_id": "q1", "text": ""}, {"_id": "q2", "text": "fine"}, {"_id": "q2", "text": "other"}
    )
    write(root, "qrels.tsv", "q2 0 7 1", "q2 0 missing 1", "q9 0 d1 1", "q2 0 d1 high", "q2 0 5 1")
    report = validate_folder(root)
    assert not report.ok
    places = [problem.place.rpartition("/")[2] for problem in report.errors]
    assert sorted(places) == [
        "corpus.jsonl:10", "corpus.jsonl:2", "corpus.jsonl:3", "corpus.jsonl:9", "qrels.tsv:1", "qrels.tsv:2",
        "qrels.tsv:3", "qrels.tsv:4", "queries.jsonl:1", "queries.jsonl:3",
    ]  # fmt: skip
    assert [problem.place.rpartition("/")[2] for problem in report.warnings] == ["corpus.jsonl:5", "corpus.jsonl:6"]
    assert report.counts["passage ids that were numbers"] == 1
    assert report.counts["duplicate passages merged"] == 1
    assert report.counts["passages"] == 5
    assert report.findings.warning_counts == {"empty passages": 1, "passages without text": 1}
    text = report.text()
    for problem in report.errors:
        assert str(problem) in text
    assert "10 errors" in text
    assert text.endswith("not ok: see the errors above")


def test_thousands_of_bad_lines_do_not_hide_other_kinds(good):
    with (good / "corpus.jsonl").open("a") as handle:
        handle.write("{bad\n" * 3000)
    with (good / "qrels.tsv").open("a") as handle:
        handle.write("c_1\tgone\t1\n")
    report = validate_folder(good)
    assert report.findings.error_counts == {"bad line": 3000, "judgement of an unknown passage": 1}
    assert len(report.errors) == 21
    assert report.errors[0].place.endswith("corpus.jsonl:21")
    assert "2980 more" in report.text()
    assert "qrels.tsv:5" in report.text()
    with pytest.raises(DataError) as caught:
        load_dataset(good)
    assert "3001 problems" in str(caught.value)
    assert "and 2981 more" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 23


def test_one_cause_one_error(good):
    (good / "corpus.jsonl").unlink()
    assert [problem.kind for problem in validate_folder(good).errors] == ["missing file"]
    (good / "corpus.jsonl").write_bytes(gzip.compress(b'{"_id":"x","text":"t"}\n' * 3000)[:-30])
    report = validate_folder(good)
    assert [problem.kind for problem in report.errors] == ["unreadable file"]
    assert report.errors[0].place == str(good / "corpus.jsonl")
    assert report.counts["queries"] == 2  # the other files are still counted
    assert report.counts["judgements"] == 3


def test_unreadable_judgements(good):
    (good / "qrels.tsv").write_bytes("c_1\td1\t1\n".encode("utf-16"))
    assert [problem.kind for problem in validate_folder(good).errors] == ["unreadable file"]


def test_no_overlap_and_no_judgements(good):
    (good / "qrels.tsv").write_text("x\td1\t1\n")
    assert {problem.kind for problem in validate_folder(good).errors} == {"judgement of an unknown query", "no overlap"}
    (good / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n")
    report = validate_folder(good)
    assert report.ok
    assert [problem.kind for problem in report.warnings] == ["no judgements"]


def test_report_and_loader_agree(good):
    """Whatever one line of a good folder is broken into: refused by both or accepted by both."""
    for name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv"):
        original = (good / name).read_bytes()
        for size in range(0, len(original), 7):
            (good / name).write_bytes(original[:size])
            ok = validate_folder(good).ok
            if ok:
                load_dataset(good)
            else:
                with pytest.raises(DataError):
                    load_dataset(good)
        (good / name).write_bytes(original)


def test_not_a_folder(good):
    with pytest.raises(DataError, match="not a folder"):
        validate_folder(good / "corpus.jsonl")


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ("007", "7"),
        ("7", "007"),
        ("7", "7.0"),
        ("0", "00"),
        ("Doc-1", "doc-1"),
        ("d1", "d1 "),
        ("caf\u00e9", "cafe\u0301"),
    ],
)
def test_hint_at_ids_that_another_program_changed(tmp_path, known, asked):
    root = tmp_path / "s"
    write(root, "corpus.jsonl", {"_id": "other", "text": "x"}, {"_id": known, "text": "y"})
    write(root, "queries.jsonl", {"_id": "q", "text": "?"})
    write(root, "qrels.tsv", f"q\t{asked}\t1", "q\tnowhere\t1", "q\tother\t1")
    errors = [problem.message for problem in validate_folder(root).errors]
    assert errors[0].startswith(f"there is no passage {asked!r}, but there is {known!r}: ")
    assert errors[1] == "there is no passage 'nowhere'"


def test_long_reading_says_how_far_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("utilitune.records.beir_reading.PLAIN_EVERY_SECONDS", 0.0)
    root = tmp_path / "s"
    write(root, "corpus.jsonl", *({"_id": str(i), "text": "x"} for i in range(20_000)))
    write(root, "queries.jsonl", {"_id": "q", "text": "?"})
    validate_folder(root)
    assert capsys.readouterr().err == "read corpus.jsonl: 10,000 rows\nread corpus.jsonl: 20,000 rows\n"
