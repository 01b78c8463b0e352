"""Parquet holds the same rows as JSONL."""

import pytest

from utilitune.errors import DataError
from utilitune.records import read_rows, write_rows

ROWS = [
    {"_id": "007", "text": "a\u2028b", "metadata": {"n": 1, "deep": {"x": [1, "a", None]}}},
    {"_id": "8", "text": "", "metadata": {"other": True}, "history": [{"role": "user", "content": "q"}]},
    {"_id": "9", "text": "c", "grade": 1, "mixed": 1, "number": 1, "big": 2**70, "nested": [["a"], []]},
    {"_id": "10", "text": "d", "grade": 2, "mixed": "one", "number": 1.5, "odd": [{"a": 1}, {"b": 2}], "empty": []},
]


def test_rows_come_back_unchanged_apart_from_nulls(tmp_path):
    path = tmp_path / "t.parquet"
    assert write_rows(path, ROWS) == 4
    read = list(read_rows(path))
    assert [line for line, _ in read] == [1, 2, 3, 4]
    assert [{key: value for key, value in row.items() if value is not None} for _, row in read] == ROWS
    assert type(read[2][1]["number"]) is int  # 1 does not become 1.0 beside 1.5


def test_messages_stay_native_for_other_tools(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    write_rows(path, [{"prompt": [{"role": "user", "content": "q"}], "u": 0.5}])
    table = pq.read_table(path)
    assert table.to_pylist() == [{"prompt": [{"role": "user", "content": "q"}], "u": 0.5}]
    assert str(table.schema.field("u").type) == "double"


def test_content_decides_not_the_name(tmp_path):
    path = tmp_path / "t.parquet"
    write_rows(path, [{"a": 1}])
    other = tmp_path / "t.jsonl"
    other.write_bytes(path.read_bytes())
    assert list(read_rows(other)) == [(1, {"a": 1})]
    path.write_text('{"a": 1}\n')
    with pytest.raises(DataError, match="the content is not Parquet"):
        list(read_rows(path))


def test_cut_file_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    write_rows(path, [{"a": str(i)} for i in range(1000)])
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match=r"t\.parquet: the Parquet file is damaged or cut off"):
        list(read_rows(path))


def test_nan_in_a_foreign_file_is_a_bad_row(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"u": [0.5, float("nan"), 1.0]}), path)
    with pytest.raises(DataError, match=r"t\.parquet:2: the number at \$\.u is not finite"):
        list(read_rows(path))
    assert [row["u"] for _, row in read_rows(path, on_bad_line="skip")] == [0.5, 1.0]


def test_many_batches_count_on(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": list(range(1000))}), path, row_group_size=100)
    assert list(read_rows(path)) == [(i + 1, {"a": i}) for i in range(1000)]


def test_no_rows(tmp_path):
    path = tmp_path / "t.parquet"
    assert write_rows(path, []) == 0
    assert list(read_rows(path)) == []
