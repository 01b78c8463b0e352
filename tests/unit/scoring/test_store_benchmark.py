"""The store's benchmark runs, and checks what it finds while it measures."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "store.py"


def test_a_small_run(tmp_path):
    out = tmp_path / "store.json"
    command = [sys.executable, BENCHMARK, "--rows", "3000", "--look-ups", "512", "--folder", tmp_path, "--out", out]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    result = json.loads(out.read_text())
    assert result["rows"] == 3000 and result["journal_mode"] == "wal"
    assert result["files_after_close"] == ["labels.sqlite"], "one file"
    assert 150 < result["bytes_a_row"] < 400
    assert [path.name for path in tmp_path.iterdir()] == ["store.json"]
