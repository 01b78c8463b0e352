"""TREC run files."""

import gzip
import math

import numpy as np
import pytest

from utilitune.errors import DataError
from utilitune.records import Run, read_run, write_run


def test_written_by_hand(tmp_path):
    path = tmp_path / "r.trec"
    path.write_text("q1 Q0 d2 1 2.5 tag\nq1 Q0 d1 2 0.5 tag\nq2\tQ0\td1\t1\t-3e-2\ttag\n")
    assert read_run(path) == {"q1": [("d2", 2.5), ("d1", 0.5)], "q2": [("d1", -0.03)]}
    assert isinstance(read_run(path), Run)


def test_lines_written(tmp_path):
    path = tmp_path / "r.trec"
    write_run(path, Run({"q": [("a", 0.1 + 0.2), ("b", np.float32(0.25))], "none": []}), tag="t")
    assert path.read_text() == "q Q0 a 1 0.30000000000000004 t\nq Q0 b 2 0.25 t\n"


@pytest.mark.parametrize("name", ["r.trec", "r.trec.gz"])
def test_round_trip_keeps_order_and_precision(tmp_path, name):
    rng = np.random.default_rng(0)
    run = Run()
    for q in range(20):
        scores = sorted(rng.normal(size=30).tolist(), reverse=True)
        run[f"00{q}"] = [(f"d{int(i)}", s) for i, s in zip(rng.permutation(30), scores, strict=True)]
    write_run(tmp_path / name, run)
    assert read_run(tmp_path / name) == run
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_ties_keep_the_order_given(tmp_path):
    order = ["z", "a", "m", "b"]
    run = Run({"q": [(passage, 1.0) for passage in order]})
    write_run(tmp_path / "r.trec", run)
    assert [passage for passage, _ in read_run(tmp_path / "r.trec")["q"]] == order
    # Lines sorted by passage: the rank column still tells.
    (tmp_path / "s.trec").write_text("\n".join(sorted((tmp_path / "r.trec").read_text().splitlines())) + "\n")
    assert read_run(tmp_path / "s.trec") == run
    # No usable ranks: the lines tell.
    (tmp_path / "n.trec").write_text("".join(f"q Q0 {passage} 0 1.0 t\n" for passage in order))
    assert read_run(tmp_path / "n.trec") == run


def test_scores_decide_over_ranks(tmp_path):
    (tmp_path / "r.trec").write_text("q Q0 low 1 0.1 t\nq Q0 high 2 0.9 t\n")
    assert read_run(tmp_path / "r.trec") == {"q": [("high", 0.9), ("low", 0.1)]}


def test_scores_that_are_not_finite_come_last_and_are_warned_about(tmp_path, capsys):
    (tmp_path / "r.trec").write_text("q Q0 a 1 nan t\nq Q0 i 2 inf t\nq Q0 b 3 0.9 t\nq Q0 c 4 0.1 t\n")
    ranking = read_run(tmp_path / "r.trec")["q"]
    assert [passage for passage, _ in ranking] == ["b", "c", "a", "i"]
    assert math.isnan(ranking[2][1])
    assert "2 scores are not finite" in capsys.readouterr().err


def test_ids_with_spaces_and_unicode_spaces(tmp_path):
    run = Run({"q 1": [("d\xa01", 2.0), ("d\x852", 1.0), ("d 3", 0.5)]})
    write_run(tmp_path / "r.trec", run)
    assert read_run(tmp_path / "r.trec") == run
    # U+0085 and U+00A0 do not separate columns in other tools' files.
    (tmp_path / "o.trec").write_bytes("q Q0 d\x85\xa01 1 0.5 t\r\n".encode())
    assert read_run(tmp_path / "o.trec") == {"q": [("d\x85\xa01", 0.5)]}


def test_gzip_under_another_name_bom_crlf_blank(tmp_path):
    (tmp_path / "r.trec").write_bytes(gzip.compress(b"\xef\xbb\xbfq Q0 d 1 0.5 t\r\n\r\n"))
    assert read_run(tmp_path / "r.trec") == {"q": [("d", 0.5)]}


def test_all_bad_lines_at_once(tmp_path):
    path = tmp_path / "r.trec"
    path.write_bytes(b"q Q0 d 1 0.5 t\nq d 1\nq Q0 e one 0.5 t\nq Q0 f 2 high t\nq Q0 d 9 0.1 t\nq Q0 \xe9 2 1 t\n")
    with pytest.raises(DataError) as caught:
        read_run(path)
    message = str(caught.value)
    assert "5 problems" in message
    for line in (2, 3, 4, 5, 6):
        assert f"{path}:{line}: " in message
    assert "'d' comes twice for query 'q'; first on line 1" in message


@pytest.mark.parametrize("bad", ["", " ", "a\tb", "a\nb"])
def test_ids_that_no_file_can_hold_are_refused(tmp_path, bad):
    with pytest.raises(DataError, match="cannot stand in a run file"):
        write_run(tmp_path / "r.trec", Run({"q": [(bad, 1.0)]}))
    assert not (tmp_path / "r.trec").exists()


def test_cut_gzip(tmp_path):
    path = tmp_path / "r.trec.gz"
    path.write_bytes(gzip.compress(b"".join(b"q Q0 d%d 1 0.5 t\n" % i for i in range(5000)))[:-20])
    with pytest.raises(DataError, match="cut off or damaged after line"):
        read_run(path)
