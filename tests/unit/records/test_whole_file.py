"""Writers: strict JSON, whole files, nothing half done."""

import gzip
import json
import os
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from utilitune.errors import DataError
from utilitune.records import read_json, read_rows, write_json, write_rows, write_text


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


def test_bytes_are_utf8_with_lf(tmp_path):
    path = tmp_path / "deep" / "er" / "o.jsonl"
    assert write_rows(path, [{"a": "é\u2028"}, {"b": None}]) == 2
    assert path.read_bytes() == '{"a": "é\u2028"}\n{"b": null}\n'.encode()
    assert leftovers(path.parent) == ["o.jsonl"]


def test_gzip_output_carries_no_name_and_no_time(tmp_path):
    first, second = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    write_rows(first, [{"a": 1}])
    write_rows(second, [{"a": 1}])
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes()[4:8] == bytes(4)
    assert gzip.decompress(first.read_bytes()) == b'{"a": 1}\n'


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".parquet"])
def test_numpy_scalars_and_friends_are_cast(tmp_path, ending):
    path = tmp_path / f"n{ending}"
    row = {
        "f32": np.float32(0.5), "f64": np.float64(0.1), "i": np.int64(7), "b": np.bool_(True), "s": np.str_("x"),
        "array": np.array([1.0, 2.0]), "tuple": ("a",), "path": Path("a/b"), "date": date(2024, 1, 2),
    }  # fmt: skip
    write_rows(path, [row])
    assert [row for _, row in read_rows(path)] == [
        {
            "f32": 0.5, "f64": 0.1, "i": 7, "b": True, "s": "x", "array": [1.0, 2.0], "tuple": ["a"], "path": "a/b",
            "date": "2024-01-02",
        }
    ]  # fmt: skip


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".parquet"])
@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), -float("inf"), np.float32("nan"), np.float64("inf"), np.array([0.0, np.nan])]
)
def test_numbers_that_are_not_finite_are_refused_and_the_old_file_stays(tmp_path, ending, bad):
    path = tmp_path / f"u{ending}"
    write_rows(path, [{"u": 1.0}])
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"row 2.*\$\.e\.u(\[1\])? is not finite"):
        write_rows(path, [{"u": 1.0}, {"e": {"u": bad}}])
    assert path.read_bytes() == before
    assert leftovers(tmp_path) == [path.name]


@pytest.mark.parametrize("bad", [object(), b"bytes", {1: object()}])
def test_values_without_json_form_are_refused(tmp_path, bad):
    with pytest.raises(DataError, match="row 1: cannot be written as JSON"):
        write_rows(tmp_path / "o.jsonl", [{"a": bad}])
    assert leftovers(tmp_path) == []


def test_lone_surrogate_is_refused(tmp_path):
    with pytest.raises(DataError, match="row 1: holds a lone surrogate"):
        write_rows(tmp_path / "o.jsonl", [{"a": "\ud83d"}])
    with pytest.raises(DataError, match="lone surrogate"):
        write_text(tmp_path / "o.txt", "\ud83d")
    assert leftovers(tmp_path) == []


def test_rows_that_fail_half_way_leave_the_old_file(tmp_path):
    path = tmp_path / "o.jsonl"
    write_text(path, "old\n")

    def failing():
        yield {"a": 1}
        raise RuntimeError("backend gone")

    with pytest.raises(RuntimeError, match="backend gone"):
        write_rows(path, failing())
    assert path.read_text() == "old\n"
    assert leftovers(tmp_path) == ["o.jsonl"]


def test_killed_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "o.jsonl"
    write_rows(path, [{"old": True}])
    code = (
        "import sys\nfrom utilitune.records import write_rows\n"
        "def rows():\n"
        "    for i in range(10**9):\n"
        "        if i == 20000: print('going', flush=True)\n"
        "        yield {'i': i, 'text': 'x' * 50}\n"
        "write_rows(sys.argv[1], rows())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"going\n"
        os.kill(writer.pid, signal.SIGKILL)
    assert [row for _, row in read_rows(path)] == [{"old": True}]


def test_readers_meet_old_or_new_never_half(tmp_path):
    """Two writers replace one file over and over; every read sees one of the two whole contents."""
    path = tmp_path / "o.jsonl"
    contents = {name: [{"w": name, "pad": "x" * 100_000} for _ in range(5)] for name in ("a", "b")}
    write_rows(path, contents["a"])
    code = (
        "import sys\nfrom utilitune.records import write_rows\n"
        "for _ in range(30): write_rows(sys.argv[1], [{'w': sys.argv[2], 'pad': 'x' * 100000}] * 5)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in contents]
    reads = 0
    while any(writer.poll() is None for writer in writers):
        assert [row for _, row in read_rows(path)] in contents.values()
        reads += 1
    assert reads > 3
    assert [writer.returncode for writer in writers] == [0, 0]
    assert leftovers(tmp_path) == ["o.jsonl"]


def test_symbolic_link_and_rights_survive(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    write_json(real, {"a": 1})
    real.chmod(0o640)
    link.symlink_to(real)
    write_json(link, {"a": 2})
    assert link.is_symlink()
    assert read_json(real) == {"a": 2}
    assert real.stat().st_mode & 0o777 == 0o640


def test_new_files_follow_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        write_json(tmp_path / "a.json", {})
    finally:
        os.umask(old)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o640


def test_json_document(tmp_path):
    path = tmp_path / "m.json"
    write_json(path, {"b": np.float32(0.25), "a": ["é"]})
    assert path.read_text(encoding="utf-8") == '{\n  "b": 0.25,\n  "a": [\n    "é"\n  ]\n}\n'
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_json(path) == {"b": 0.25, "a": ["é"]}
    with pytest.raises(DataError, match=r"\$\.x\[0\]\.y is not finite"):
        write_json(path, {"x": [{"y": float("nan")}]})
    with pytest.raises(DataError, match="not a JSON document"):
        write_text(path, "{")
        read_json(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_json(tmp_path / "none.json")


def test_text_is_written_as_it_is(tmp_path):
    write_text(tmp_path / "t.md", "a\r\nb\n")
    assert (tmp_path / "t.md").read_bytes() == b"a\r\nb\n"


def test_written_rows_are_strict_json_for_any_reader(tmp_path):
    path = tmp_path / "o.jsonl"
    write_rows(path, [{"a": 0.1 + 0.2, "b": 1e-320, "c": -0.0}])

    def refuse(name):
        raise AssertionError(name)

    assert json.loads(path.read_text(), parse_constant=refuse) == {"a": 0.1 + 0.2, "b": 1e-320, "c": -0.0}


def test_what_cannot_be_written_is_an_error_that_names_it(tmp_path):
    with pytest.raises(DataError, match=r"x: cannot be written.*name too long"):
        write_text(tmp_path / ("x" * 300), "text")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe: is a folder or a device"):
        write_text(tmp_path / "pipe", "text")
    assert leftovers(tmp_path) == ["pipe"]
