"""``kill -9`` in the middle of labelling, and two processes on one store."""

import json
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

SCRIPT = Path(__file__).parent / "labelling_process.py"


def start(out, store, log, delay=0.0):
    return subprocess.Popen([sys.executable, SCRIPT, out, store, log, str(delay)], stderr=subprocess.DEVNULL)


def stored(path):
    if not path.exists():
        return 0
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)
        return db.execute("SELECT count(*) FROM responses").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        if "db" in locals():
            db.close()


def sorted_lines(path):
    return sorted(path.read_bytes().splitlines())


def manifest_counts(path):
    document = json.loads((path.parent / f"{path.stem}.manifest.json").read_text())
    return document.get("manifest", document)["counts"]


def test_killed_and_started_again(tmp_path):
    whole, out = tmp_path / "whole.jsonl", tmp_path / "labels.jsonl"
    assert start(whole, tmp_path / "whole.sqlite", tmp_path / "whole.log").wait(120) == 0
    total = manifest_counts(whole)["store_misses"]

    store = tmp_path / "s.sqlite"
    before: list[str] = []
    for attempt, share in enumerate((0.2, 0.5, 0.8)):
        log = tmp_path / f"{attempt}.log"
        process = start(out, store, log, delay=0.1)
        deadline = time.monotonic() + 60
        while stored(store) < share * total and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.wait()
        kept = stored(store)
        assert share * total <= kept < total, "killed in the middle"
        assert not out.exists()
        before += log.read_text().splitlines()

    last = tmp_path / "last.log"
    assert start(out, store, last).wait(120) == 0
    assert sorted_lines(out) == sorted_lines(whole)
    assert len(sorted_lines(out)) == 12 * 3 * 3
    counts = manifest_counts(out)
    assert counts["store_hits"] == kept and counts["store_misses"] == total - kept
    # What was committed is never computed again: the last process did the rest and nothing else, and what was computed
    # twice is at most the chunk in flight at each of the three kills.
    rest = Counter(last.read_text().splitlines())
    assert max(rest.values()) == 1 and len(rest) == total - kept
    repeats = len(before) + len(rest) - total
    assert 0 <= repeats <= 3 * 3 * 7, "a chunk holds 3 passages of 7 responses at most"
    assert len(set(before) | set(rest)) == total


def test_two_processes_on_one_store(tmp_path):
    store = tmp_path / "s.sqlite"
    outs = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    both = [start(out, store, out.with_suffix(".log")) for out in outs]
    assert [process.wait(120) for process in both] == [0, 0]
    assert sorted_lines(outs[0]) == sorted_lines(outs[1])
    everything = [line for out in outs for line in out.with_suffix(".log").read_text().splitlines()]
    assert stored(store) == len(set(everything))
