"""Evaluation is importable without torch, and fast enough for a paper's tables."""

import random
import subprocess
import sys
import time

from utilitune.evaluation import evaluate
from utilitune.records import Run


def test_import_needs_no_torch():
    code = "import sys, utilitune.evaluation; sys.exit(bool({'torch', 'transformers', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_thousand_queries_hundred_candidates_all_measures_in_ten_seconds():
    rng = random.Random(0)
    ids = [f"d{i}" for i in range(5000)]
    qrels = {f"q{i}": {pid: float(rng.randrange(3)) for pid in rng.sample(ids, 10)} for i in range(1000)}
    run = Run({query_id: [(pid, rng.random()) for pid in rng.sample(ids, 100)] for query_id in qrels})
    table = {query_id: {pid: rng.random() for pid, _ in pairs} for query_id, pairs in run.items()}
    names = [
        "MRR@10",
        "RR",
        "nDCG@10",
        "nDCG",
        "R@10",
        "R@100",
        "P@5",
        "Success@5",
        "MAP",
        "AP@10",
        "UDCG@5",
        "rawUDCG@10",
    ]
    start = time.process_time()
    evaluate(qrels, run, names, utilities=table)
    assert time.process_time() - start < 10
