"""Rerankers: throughput next to plain sentence-transformers, and what ONNX and int8 give and cost.

    python benchmarks/rerank.py --data DATA --reranker DIR       # a trained reranker; under 4 minutes on two cores
    python benchmarks/rerank.py --data DATA                      # MiniLM, new head: times hold, its order is noise
    python benchmarks/rerank.py --data DATA --quick              # smallest sizes: does it run?

What each row means: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from alternating import CLOCKS, alternate
from machine import facts
from sentence_transformers import CrossEncoder

from utilitune import Bm25Retriever, load_dataset
from utilitune.progress import set_quiet
from utilitune.records import Dataset, Run
from utilitune.records.manifest import version
from utilitune.rerank import UtilityReranker, export_reranker
from utilitune.rerank.backends import BACKENDS
from utilitune.rerank.export_files import GRAPHS

HERE = Path(__file__).resolve().parent
BASE = "packaged:all-minilm-l6-v2"
BATCH = 32
CANDIDATES = 100
PACKAGES = ("sentence-transformers", "onnx", "onnxscript", "onnxruntime")
PRECISIONS = {"onnx": "fp32", "onnx-int8": "int8"}


@dataclass(frozen=True)
class Size:
    """How much is done.

    Attributes:
        pairs: Distinct pairs whose throughput is measured.
        questions: Questions with 100 candidates each whose latency is measured.
        compared: Questions with 20 candidates each on which the graphs are compared with the model.
        repeats: Repeats of everything timed.
    """

    pairs: int = 128
    questions: int = 2
    compared: int = 20
    repeats: int = 4


QUICK = Size(40, 1, 2, 1)


def throughput(folder: Path, pairs: Sequence[tuple[str, str]], repeats: int, clock: str) -> dict[str, Any]:
    """Score pairs with ``CrossEncoder.predict`` and with ours, the same batch size."""
    plain = CrossEncoder(str(folder), local_files_only=True, device="cpu")
    ours = UtilityReranker.load(folder, device="cpu", batch_size=BATCH)
    ways = {
        "plain": lambda: plain.predict(
            list(pairs), batch_size=BATCH, activation_fn=torch.nn.Identity(), show_progress_bar=False
        ),
        "ours": lambda: ours.score_pairs(pairs),
    }
    timed = alternate(ways, repeats, clock)
    return {
        "pairs": len(pairs),
        "batch": BATCH,
        "ratio": timed["plain"].median / timed["ours"].median,
        "target": ">= 0.95",
        "reached": timed["plain"].median / timed["ours"].median >= 0.95,
        "pairs_per_second": {name: len(pairs) / each.median for name, each in timed.items()},
        "largest_difference": float(np.abs(np.asarray(timed["plain"].result) - timed["ours"].result).max()),
        "truncated": ours.counts["truncated_pairs"],
        "seconds": {name: each.seconds for name, each in timed.items()},
    }


def latency(folder: Path, dataset: Dataset, run: Run, repeats: int, clock: str) -> dict[str, Any]:
    """Rank one question's candidates, with every backend; the median over questions of the median over repeats."""
    rerankers = {name: UtilityReranker.load(folder, device="cpu", batch_size=BATCH, backend=name) for name in BACKENDS}
    texts, passages = {query.id: query.text for query in dataset.queries}, dataset.passages()
    seconds: dict[str, list[list[float]]] = {name: [] for name in BACKENDS}
    tokenizer, tokens = rerankers["torch"].model.tokenizer, 0
    for query_id, scored in run.items():
        found = [passages[passage_id] for passage_id, _ in scored]
        read = tokenizer([texts[query_id]] * len(found), [each.full_text for each in found], truncation=True)
        tokens += sum(map(len, read["input_ids"]))
        ways = {
            name: (lambda each=each, text=texts[query_id], found=found: each.rank(text, found))
            for name, each in rerankers.items()
        }
        for way in ways.values():  # the first call of a graph lays out its memory
            way()
        for name, timed in alternate(ways, repeats, clock).items():
            seconds[name].append(timed.seconds)
    found_median = {name: median(median(each) for each in rows) for name, rows in seconds.items()}
    return {
        "candidates": CANDIDATES,
        "tokens_a_pair": tokens / sum(len(scored) for scored in run.values()),
        "target": "onnx-int8 < 1 s",
        "reached": found_median["onnx-int8"] < 1.0,
        "median": found_median,
        "slowest": {name: max(median(each) for each in rows) for name, rows in seconds.items()},
        "seconds": seconds,
    }


def table(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    machine, speed, delay = result["machine"], result["throughput"], result["latency"]
    rate = speed["pairs_per_second"]
    versions = ", ".join(f"{name} {found}" for name, found in result["versions"].items())
    lines = [
        f"# Reranking on {machine['cpu']}, {machine['threads']} threads",
        "",
        f"{result['reranker']}, {result['data']}; Python {machine['python']}, torch {machine['torch']}, {versions}; "
        f"{result['made']}.",
        "",
        f"Throughput next to `CrossEncoder.predict`, {speed['pairs']} distinct pairs, batch {speed['batch']}: "
        f"{rate['ours']:.1f} ÷ {rate['plain']:.1f} pairs/s = {speed['ratio']:.3f} (target {speed['target']}), "
        f"logits within {speed['largest_difference']:.1e}.",
        "",
        f"One question with {delay['candidates']} candidates, {delay['tokens_a_pair']:.0f} tokens a pair on average "
        f"(target {delay['target']}: {'reached' if delay['reached'] else 'missed'}); order compared on "
        f"{result['compared']['queries']} questions, {result['compared']['pairs']} pairs:",
        "",
        "| backend | seconds | slowest question | times torch | file, MB | largest logit difference | Kendall tau "
        "| same best | nDCG@10 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, seconds in delay["median"].items():
        row = result["quality"][name]
        cells = [f"{row['megabytes']:.1f}", *row["cells"]]
        faster = delay["median"]["torch"] / seconds
        lines.append(f"| {name} | {seconds:.2f} | {delay['slowest'][name]:.2f} | {faster:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def quality(folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Return what each backend costs on disk and in agreement, ready for the table."""
    ndcg = found["fp32"].ndcg
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors")) / 1e6
    rows = {"torch": {"megabytes": weights, "cells": ["", "", "", f"{ndcg['before']:.4f}" if ndcg else ""]}}
    for backend, precision in PRECISIONS.items():
        one = found[precision]
        tau = "" if one.kendall is None else f"{one.kendall:.4f}"
        change = ""
        if one.ndcg is not None:
            low, high = one.ndcg["low"], one.ndcg["high"]
            within = "" if low is None else f" [{low:+.4f}, {high:+.4f}]"
            change = f"{one.ndcg['after']:.4f} ({one.ndcg['difference']:+.4f}{within})"
        rows[backend] = {
            "megabytes": (folder / GRAPHS[precision]).stat().st_size / 1e6,
            "cells": [f"{one.largest:.1e} of {one.spread:.2g}", tau, f"{one.same_top} of {one.queries}", change],
            "agreement": one.as_dict(),
        }
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Export a copy of the reranker, compare, time, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="BEIR folder, such as nq-litm")
    parser.add_argument("--reranker", type=Path, help="folder of a trained reranker; a new head on MiniLM without it")
    parser.add_argument("--threads", type=int, default=0, help="threads of torch and of ONNX Runtime; 0: usable cores")
    parser.add_argument("--repeats", type=int, default=0, help="repeats of everything timed; 0 is the size's own")
    parser.add_argument(
        "--clock", choices=tuple(CLOCKS), default="wall", help="cpu: for one thread on a shared machine"
    )
    parser.add_argument("--quick", action="store_true", help="the smallest sizes")
    parser.add_argument("--out", type=Path, help="JSON file; a table goes next to it (.md)")
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    os.environ["OMP_NUM_THREADS"] = str(torch.get_num_threads())  # what ONNX Runtime is given
    size = QUICK if options.quick else Size()
    repeats = options.repeats or size.repeats
    out = options.out or HERE / "results" / f"rerank-{platform.machine()}-{torch.get_num_threads()}t.json"
    set_quiet(True)
    dataset = load_dataset(options.data)
    judged = [query for query in dataset.queries if dataset.qrels.get(query.id)] or dataset.queries
    run = Bm25Retriever.build(dataset.corpus).search(judged[: size.compared], k=CANDIDATES)
    texts, passages = {query.id: query.text for query in judged}, dataset.passages()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "reranker"
        if options.reranker:
            shutil.copytree(options.reranker, folder)
        else:
            UtilityReranker.untrained(BASE, max_length=256, device="cpu").save(folder)
        found = export_reranker(folder, dataset, run, depth=20)
        pairs = [(texts[query_id], passages[pid].full_text) for query_id, scored in run.items() for pid, _ in scored]
        spread = list(dict.fromkeys(pairs))[:: max(len(pairs) // size.pairs, 1)][: size.pairs]
        asked = Run(list(run.items())[: size.questions])
        result = {
            "reranker": options.reranker.name if options.reranker else f"{BASE}, new head",
            "data": Path(options.data).name,
            "size": "quick" if options.quick else "full",
            "clock": options.clock,
            "machine": facts(torch.device("cpu")),
            "versions": {
                name: version(name) for name in ("sentence-transformers", "onnx", "onnxscript", "onnxruntime")
            },
            "compared": {"pairs": found["fp32"].pairs, "queries": found["fp32"].queries},
            "quality": quality(folder, found),
            "throughput": throughput(folder, spread, repeats, options.clock),
            "latency": latency(folder, dataset, asked, repeats, options.clock),
            "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(table(result), encoding="utf-8")
    print(table(result))
    print(out)


if __name__ == "__main__":
    main()
