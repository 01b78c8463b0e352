"""The label store at size: inserts, look-ups, bytes and memory, through its public methods, codec included.

``python benchmarks/store.py --rows 5000000 --out benchmarks/results/store.json``

Rows are like those of labelling: answers of about 8 tokens with log-probabilities and entropies in float32 values, two
responses under every prompt, committed in transactions of one chunk. Look-ups ask for random keys, as many present as
absent ones, 256 at a time, in the file as it stands after all inserts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import sqlite3
import struct
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from utilitune.generator.protocol import Continuation, Generation, GeneratorIdentity
from utilitune.scoring import LabelStore
from utilitune.scoring.origin import Origin, Source, Subject

GENERATOR = GeneratorIdentity("benchmark", "0" * 64, "none", "float32")
WORDS = ("the", "river", "runs", "north", "of", "old", "town", "mill", "and", "bridge", "in", "year")
A_PROMPT = 2


def key(number: int) -> bytes:
    """Return the key of a row: 6 bytes of its prompt, 10 of its own, as ``ResponseKeys`` makes them."""
    prompt = sha256(struct.pack("<Q", number // A_PROMPT)).digest()
    return prompt[:6] + sha256(struct.pack("<Q", number) + b"row").digest()[:10]


def pool(size: int) -> list[Continuation]:
    """Return varied responses of 4 to 12 tokens; half of them are answers, half scored texts."""
    draw = random.Random(0)
    responses: list[Continuation] = []
    for number in range(size):
        count = draw.randint(4, 12)
        tokens = tuple(f" {draw.choice(WORDS)}" for _ in range(count))
        numbers = struct.unpack(
            f"<{2 * count}f", struct.pack(f"<{2 * count}f", *(draw.random() for _ in range(2 * count)))
        )
        ids = tuple(draw.randrange(50000) for _ in tokens)
        given = ("".join(tokens).strip(), tokens, ids, tuple(-each for each in numbers[:count]), numbers[count:])
        responses.append(Generation(*given, finish="stop") if number % 2 else Continuation(*given))
    return responses


def fill(store: LabelStore, rows: int, chunk: int) -> list[dict[str, float]]:
    """Insert ``rows`` rows; time is of ``put_many`` alone. Returns the rate of every tenth of the work."""
    responses = pool(4096)
    sources = [Source.of(GENERATOR, kind, "answer", "1" * 64) for kind in ("ids", "greedy")]
    rates: list[dict[str, float]] = []
    spent, done = 0.0, 0
    for start in range(0, rows, chunk):
        numbers = range(start, min(start + chunk, rows))
        given = {key(number): responses[number % len(responses)] for number in numbers}
        origins = {
            each: Origin(sources[number % 2], Subject(f"q{number // 20}", (f"p{number // 2 % 1000000}",)))
            for each, number in zip(given, numbers, strict=True)
        }
        begin = time.perf_counter()
        store.put_many(given, origins)
        spent += time.perf_counter() - begin
        done += len(numbers)
        if done >= (len(rates) + 1) * rows / 10:
            before = rates[-1] if rates else {"rows": 0, "seconds": 0.0}
            rate = (done - before["rows"]) / (spent - before["seconds"])
            rates.append({"rows": done, "seconds": spent, "inserts_a_second": rate})
            print(f"{done} rows, {rate:.0f} inserts/s", file=sys.stderr)
    return rates


def look_up(store: LabelStore, rows: int, asked: int, absent: bool) -> float:
    """Return look-ups a second of random keys, 256 a call."""
    draw = random.Random(1)
    spent = 0.0
    for _ in range(0, asked, 256):
        keys = [key(draw.randrange(rows) + (rows + A_PROMPT if absent else 0)) for _ in range(256)]
        begin = time.perf_counter()
        found = store.get_many(keys)
        spent += time.perf_counter() - begin
        if len(found) != (0 if absent else len(set(keys))):
            raise RuntimeError(f"{len(found)} of {len(set(keys))} keys found, absent={absent}")
    return -(-asked // 256) * 256 / spent


def main() -> None:
    """Run, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--chunk", type=int, default=256, help="rows in one transaction")
    parser.add_argument("--look-ups", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, help="where the file is made (and removed); default: a temporary one")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "labels.sqlite"
        with LabelStore(path) as store:
            rates = fill(store, options.rows, options.chunk)
        with LabelStore(path) as store:
            present = look_up(store, options.rows, options.look_ups, absent=False)
            absent = look_up(store, options.rows, options.look_ups, absent=True)
            mode = store.db.execute("PRAGMA journal_mode").fetchone()[0]
        files = sorted(each.name for each in Path(folder).iterdir())
        size = path.stat().st_size
    result = {
        "rows": options.rows,
        "rows_a_transaction": options.chunk,
        "inserts_a_second": round(options.rows / rates[-1]["seconds"]),
        "inserts_a_second_last_tenth": round(rates[-1]["inserts_a_second"]),
        "look_ups_a_second_present": round(present),
        "look_ups_a_second_absent": round(absent),
        "files_after_close": files,
        "journal_mode": mode,
        "bytes": size,
        "bytes_a_row": round(size / options.rows, 1),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "system": platform.platform()},
        "versions": {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version},
        "rates": rates,
    }
    text = json.dumps(result, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
