"""Time of evaluation: all measures over 1,000 queries × 100 candidates, and 10,000-resample tests of 20 metrics.

Run on a quiet machine: python benchmarks/evaluation.py [--queries 1000] [--candidates 100] [--repeat 3]
Targets: each under 10 s. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable

import numpy as np

from utilitune.evaluation import evaluate, render_table, significance, significance_family
from utilitune.records import Run, manifest

MEASURES = [
    *("MRR@10", "RR", "nDCG@10", "nDCG", "R@10", "R@100", "P@5", "P@10", "Success@1", "Success@5", "MAP", "AP@10"),
    *("UDCG@5", "UDCG@10", "rawUDCG@5", "rawUDCG@10"),
]
METRICS = 20


def best_of(repeat: int, work: Callable[[], object]) -> float:
    """Return the least seconds of several goes."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return round(min(times), 3)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    rng = random.Random(0)
    ids = [f"d{i}" for i in range(50 * asked.candidates)]
    qrels = {f"q{i}": {pid: float(rng.randrange(3)) for pid in rng.sample(ids, 10)} for i in range(asked.queries)}
    fractional = {q: {pid: grade / 2 for pid, grade in grades.items()} for q, grades in qrels.items()}
    runs = {
        name: Run({query: [(pid, rng.random()) for pid in rng.sample(ids, asked.candidates)] for query in qrels})
        for name in ("before", "after")
    }
    utilities = {q: {pid: rng.random() for run in runs.values() for pid, _ in run[q]} for q in qrels}
    values = np.random.default_rng(0).random((2, METRICS, asked.queries))
    pairs = [(before.tolist(), after.tolist()) for before, after in values.swapaxes(0, 1)]
    named = [tuple(dict(zip(qrels, side, strict=True)) for side in pair) for pair in pairs]
    conversations = {query: f"c{number // 5}" for number, query in enumerate(qrels)}
    result = evaluate(qrels, runs, MEASURES, utilities=utilities)
    seconds = {
        f"evaluate: {len(MEASURES)} measures, one run": best_of(
            asked.repeat, lambda: evaluate(qrels, runs["before"], MEASURES, utilities=utilities)
        ),
        "evaluate: fractional grades, one run": best_of(
            asked.repeat,
            lambda: evaluate(fractional, runs["before"], MEASURES, utilities=utilities, relevant_from=0.5),
        ),
        f"significance: {METRICS} metrics as one family": best_of(asked.repeat, lambda: significance_family(pairs)),
        f"significance: {METRICS} metrics, conversations of 5 taken whole": best_of(
            asked.repeat, lambda: significance_family(named, clusters=conversations)
        ),
        f"significance: {METRICS} metrics one by one": best_of(
            asked.repeat, lambda: [significance(before, after) for before, after in pairs]
        ),
        f"table: two runs by {len(MEASURES)} measures, intervals and tests": best_of(
            asked.repeat, lambda: render_table(result.table(before="before"))
        ),
    }
    facts = {"queries": asked.queries, "candidates": asked.candidates, "repeat": asked.repeat}
    print(json.dumps({"seconds": seconds, **facts, "manifest": manifest()}, indent=2))


if __name__ == "__main__":
    main()
