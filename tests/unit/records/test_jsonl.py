"""JSON lines as the world makes them."""

import gzip
import json

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.records import read_rows, write_rows


def rows(path, **kwargs):
    return list(read_rows(path, **kwargs))


# Every character at which str.splitlines cuts, except the two that JSON forbids raw inside a string.
@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x7f", "\xa0", "\u3000", "\ufeff"])
def test_unicode_line_breaks_stay_inside_the_record(tmp_path, mark):
    path = tmp_path / "c.jsonl"
    text = f"first{mark}second"
    path.write_text(json.dumps({"id": "p1", "text": text}, ensure_ascii=False) + "\n", encoding="utf-8")
    assert rows(path) == [(1, {"id": "p1", "text": text})]
    again = tmp_path / "again.jsonl"
    write_rows(again, [row for _, row in rows(path)])
    assert rows(again) == rows(path)
    assert again.read_bytes().count(b"\n") == 1


def test_bom_crlf_and_blank_lines(tmp_path):
    path = tmp_path / "b.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id":"1","text":"a"}\r\n\r\n  \t\r\n{"id":"2","text":"b"}\r\n')
    assert rows(path) == [(1, {"id": "1", "text": "a"}), (4, {"id": "2", "text": "b"})]


def test_bom_is_dropped_at_the_start_only(tmp_path):
    path = tmp_path / "b.jsonl"
    path.write_bytes(b'{"a":"\xef\xbb\xbfx"}\n\xef\xbb\xbf{"a":1}\n')
    assert next(iter(read_rows(path))) == (1, {"a": "\ufeffx"})
    with pytest.raises(DataError, match=r"b\.jsonl:2"):
        rows(path)


def test_empty_file_has_no_rows(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"")
    assert rows(path) == []


def test_last_line_without_line_end_is_a_line(tmp_path):
    path = tmp_path / "l.jsonl"
    path.write_bytes(b'{"a":1}\n{"a":2}')
    assert [row["a"] for _, row in rows(path)] == [1, 2]


@pytest.mark.parametrize("name", ["really_gz.jsonl", "honest.jsonl.gz"])
def test_gzip_is_told_by_content(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b'\xef\xbb\xbf{"id":"x"}\n' * 1 + b'{"id":"y"}\n' * 1999))
    assert len(rows(path)) == 2000


def test_plain_text_under_a_gz_name_is_read(tmp_path):
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(b'{"id":"x"}\n')
    assert rows(path) == [(1, {"id": "x"})]


def test_gzip_members_are_joined(tmp_path):
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a":1}\n') + gzip.compress(b'{"a":2}\n'))
    assert [row["a"] for _, row in rows(path)] == [1, 2]


@pytest.mark.parametrize("policy", ["error", "skip"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "garbage"])
def test_damaged_gzip_names_file_and_last_good_line(tmp_path, policy, damage):
    path = tmp_path / "cut.jsonl.gz"
    packed = gzip.compress(b"".join(b'{"id":"x%d"}\n' % i for i in range(5000)))
    if damage == "cut":
        packed = packed[:-20]
    elif damage == "flipped":  # the checksum no longer fits
        packed = packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:]
    else:
        packed += b"garbage"
    path.write_bytes(packed)
    seen = 0
    with pytest.raises(DataError) as caught:
        for line, _ in read_rows(path, on_bad_line=policy):
            seen = line
    assert f"{path}: the gzip file is cut off or damaged after line {seen} " in str(caught.value)
    assert f"line {seen} is the last good one" in str(caught.value)


def test_last_good_line_of_a_cut_gzip_is_the_number_delivered(tmp_path):
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(b'{"id":"x%d"}\n' % (i * i) for i in range(20000)))[:-2000])
    seen = 0
    with pytest.raises(DataError) as caught:
        for line, _ in read_rows(path):
            seen = line
    assert 0 < seen < 20000
    assert f"after line {seen} " in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_refused_by_name_or_line(tmp_path, encoding):
    path = tmp_path / "w.jsonl"
    path.write_bytes('{"a": 1}\n'.encode(encoding))
    with pytest.raises(DataError, match=r"UTF-16; save it as UTF-8|w\.jsonl:1"):
        rows(path)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"a": 1, "a": 2}', "'a' appears twice"),
        (b'{"x": {"b": 1, "c": 0, "b": 1}}', "'b' appears twice"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": [1, -Infinity]}', "-Infinity is not JSON"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": "caf\xe9"}', "byte 0xe9 at column 11 is not UTF-8"),
        (b'{"a": "\\ud83d"}', "stands alone"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": 1} {"a": 2}', "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'["a"]', "JSON list"),
        (b'"a"', "JSON string"),
        (b"3", "JSON number"),
        (b"null", "JSON null"),
        (b"true", "JSON boolean"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
)
def test_bad_line_is_named_and_skipped_on_request(tmp_path, capsys, line, says):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"ok": 1}\n' + line + b'\n{"ok": 3}\n')
    with pytest.raises(DataError) as caught:
        rows(path)
    assert f"{path}:2: " in str(caught.value)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 600
    assert rows(path, on_bad_line="skip") == [(1, {"ok": 1}), (3, {"ok": 3})]
    warning = capsys.readouterr().err
    assert "1 bad line(s) skipped" in warning
    assert f"{path}:2" in warning


def test_paired_surrogate_escapes_are_one_character(tmp_path):
    path = tmp_path / "emoji.jsonl"
    path.write_bytes(b'{"a": "\\ud83d\\ude00", "b": "\\\\ud83d"}\n')
    assert rows(path) == [(1, {"a": "\U0001f600", "b": "\\ud83d"})]


@pytest.mark.parametrize("size", range(1, 15))
def test_torn_tail_is_said_to_be_one(tmp_path, size):
    """Whatever byte a killed writer stopped at."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"k":1,"u":0.5}\n' + b'{"k":2,"u":0.25}'[:size])
    with pytest.raises(DataError, match=r"s\.jsonl:2: .*the file ends inside this line"):
        rows(path)
    assert rows(path, on_bad_line="skip") == [(1, {"k": 1, "u": 0.5})]


def test_glued_line_is_refused(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"k":1}\n{"k":2,"u":0.{"k":2,"u":0.5}\n{"k":3}\n')
    with pytest.raises(DataError, match=r"s\.jsonl:2"):
        rows(path)


def test_unknown_policy_lists_known_ones(tmp_path):
    with pytest.raises(ConfigError, match="'error' or 'skip'"):
        rows(tmp_path / "x", on_bad_line="ignore")


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        rows(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        rows(tmp_path)
