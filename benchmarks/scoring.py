"""How fast utilities are computed, next to the ways that others compute them, side by side in one run.

    python benchmarks/scoring.py --data DATA                        # everything that the result file lacks
    python benchmarks/scoring.py --data DATA --only 3,4             # these again
    python benchmarks/scoring.py --data DATA --quick --generator M  # smallest sizes: does it run?

What each row means: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from alternating import CLOCKS, Timed, alternate
from forward_count import counted
from machine import attention_width, facts, gemm_rate, layer_shapes
from peers import (
    OneByOne,
    abstention_full_logits,
    float64_loglikelihoods,
    harness_loglikelihoods,
    samples,
)

from utilitune import Bm25Retriever, load_dataset, load_generator
from utilitune.generator import Prompt, load_prompt
from utilitune.progress import set_quiet
from utilitune.records import Turn
from utilitune.scoring.gold_answers import GoldAnswers, distinct_golds
from utilitune.scoring.labelling import label_sets
from utilitune.scoring.registry import make_utility
from utilitune.scoring.work_list import Item, items_of_run

HERE = Path(__file__).resolve().parent
PASSAGES = 5
GROGU = ("grogu:mean-entropy", "grogu:max-entropy", "grogu:key-entropy")
WORST = 16
"""Requests on which both ways are compared with double precision: those on which they differ most."""
REFERENCE_FREE = ("grogu:key-entropy", "information-gain", "entropy-drop")
SAMPLING: dict[str, Any] = {
    "n": 8,
    "temperature": 0.9,
    "top_p": 0.95,
    "max_new_tokens": 32,
    "stop": ("\n",),
    "seed": 13,
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How much a section does.

    Attributes:
        counted: Pairs whose tokens are counted.
        abstention: Pairs timed.
        grogu: Pairs timed.
        prompts: Conversations timed, eight rewrites each.
        golds: Pairs whose gold answers are timed.
        together: Pairs timed.
        memory: Pairs of the smaller and the larger run.
        vocabulary: Sizes of the smaller and the larger vocabulary.
        repeats: Repeats of everything timed.
    """

    counted: int = 200
    abstention: int = 200
    grogu: int = 200
    prompts: int = 25
    golds: int = 200
    together: int = 20
    memory: tuple[int, int] = (50, 400)
    vocabulary: tuple[int, int] = (32_000, 256_000)
    repeats: int = 1


QUICK = Size(10, 5, 5, 3, 5, 5, (5, 10), (512, 1024), 1)


class Bench:
    """Data and model of one run.

    Args:
        options: Command line.
        size: How much to do.
    """

    def __init__(self, options: argparse.Namespace, size: Size) -> None:
        self.size = size
        self.repeats = options.repeats or size.repeats
        self.clock = options.clock
        dataset = load_dataset(options.data)
        chosen = sorted(random.Random(13).sample(range(len(dataset.queries)), min(len(dataset.queries), size.counted)))
        queries = [dataset.queries[at] for at in chosen if distinct_golds(dataset.queries[at])]
        queries = queries[: -(-size.counted // PASSAGES)]
        found = Bm25Retriever.build(dataset.corpus).search(queries, k=PASSAGES)
        self.items: list[Item] = items_of_run(dataset.subset(queries), found, PASSAGES, False)[0]
        self.generator: Any = load_generator(options.generator, dtype=options.dtype, device=options.device)
        self.model = self.generator.model

    @cached_property
    def conversations(self) -> list[Prompt]:
        """Rewriting prompts: each question after the two that the data has before it, with their answers."""
        queries = list(dict.fromkeys(query for query, _ in self.items))
        template = load_prompt("rewrite")
        prompts = []
        for at, query in enumerate(queries):
            before = [queries[at - back] for back in (2, 1)]
            history = [turn for q in before for turn in (Turn("user", q.text), Turn("assistant", q.answers[0]))]
            prompts.append(template.render(question=query.text, history=history))
        return prompts

    def utilities(self, items: Sequence[Item], names: Sequence[str]) -> list[float]:
        """Label as a user does; nothing is kept, so nothing is remembered from an earlier repeat."""
        labels = label_sets(items, list(names), self.generator, max_failed=0.0)
        return [float(row.utility) for row in labels if row.utility is not None]

    def alternate(self, ours: Callable[[], Any], peer: Callable[[], Any]) -> tuple[Timed, Timed]:
        """Time our way and another's in turn."""
        timed = alternate({"ours": ours, "peer": peer}, self.repeats, self.clock)
        return timed["ours"], timed["peer"]

    def compared(self, ours: Timed, peer: Timed, count: int, unit: str, target: float, tolerance: float) -> Row:
        """Make a row of two ways that must give the same numbers."""
        off = [abs(a - b) for a, b in zip(ours.result, peer.result, strict=True)]
        row = faster(ours, peer, count, unit, target)
        row.update(largest_difference=max(off), numbers=len(off), tolerance=tolerance)
        row["beyond_tolerance"] = sum(each > tolerance for each in off)
        return row


def faster(ours: Timed, peer: Timed, count: int, unit: str, target: float) -> Row:
    """Make a row of two ways' times."""
    ratio = peer.median / ours.median
    return {
        "ratio": ratio,
        "target": f">= {target}",
        "reached": ratio >= target,
        "ours_per_second": count / ours.median,
        "peer_per_second": count / peer.median,
        "unit": unit,
        "count": count,
        "ours_seconds": ours.seconds,
        "peer_seconds": peer.seconds,
    }


def at_most(ratio: float, target: float, **more: Any) -> Row:
    """Make a row of a ratio that must be small."""
    return {"ratio": ratio, "target": f"<= {target}", "reached": ratio <= target, **more}


def tokens(bench: Bench) -> dict[str, Row]:
    """1: tokens processed over tokens of the prefix tree of all prompts (with the answers that were asked for)."""
    rows = {}
    for name, asked in {"abstention": ("abstention",), "grogu, three gammas": GROGU}.items():
        with counted(bench.generator) as count:
            bench.utilities(bench.items, asked)
        rows[f"tokens processed, {name}"] = at_most(
            count.tokens / count.least,
            1.15,
            pairs=len(bench.items),
            processed=count.tokens,
            least=count.least,
            without_padding=count.real / count.least,
            decoded_one_by_one=count.decoded,
            passes=count.calls,
        )
    return rows


def flops(bench: Bench) -> dict[str, Row]:
    """2: floating-point work a second while labelling, over what this machine reaches on the same matrices alone."""
    layers = 2.0 * sum(out * inner * times for (out, inner), times in layer_shapes(bench.model).items())
    head = 2.0 * bench.model.get_output_embeddings().weight.numel()
    attention = 4.0 * attention_width(bench.model)
    items = bench.items[: bench.size.abstention]
    rows = {}
    bench.utilities(items[:2], ["abstention"])
    for name, asked in {"abstention": ("abstention",), "grogu, three gammas": GROGU}.items():
        parts: dict[str, list[float]] = {"gemm": [], "achieved": [], "without_attention": [], "useful": []}
        for _ in range(bench.repeats):
            parts["gemm"].append(gemm_rate(bench.model, CLOCKS[bench.clock]))
            with counted(bench.generator) as count:
                start = CLOCKS[bench.clock]()
                bench.utilities(items, asked)
                spent = CLOCKS[bench.clock]() - start
            matrices = layers * count.tokens + head * count.projected
            parts["achieved"].append((matrices + attention * count.attended) / spent)
            parts["without_attention"].append(matrices / spent)
            parts["useful"].append((layers * count.least + head * count.projected) / spent)
        rate = median(parts["gemm"])
        ratio = median(parts["achieved"]) / rate
        rows[f"GFLOP/s of GEMM rate, {name}"] = {
            "ratio": ratio,
            "target": ">= 0.7",
            "reached": ratio >= 0.7,
            "without_attention": median(parts["without_attention"]) / rate,
            "useful": median(parts["useful"]) / rate,
            "gemm_gflops": [each / 1e9 for each in parts["gemm"]],
            "achieved_gflops": [each / 1e9 for each in parts["achieved"]],
            "pairs": len(items),
        }
    return rows


def abstention(bench: Bench) -> dict[str, Row]:
    """3: UDCG's u against one prompt a forward pass with full logits."""
    items = bench.items[: bench.size.abstention]
    utility = make_utility("abstention")
    prompts = [next(iter(utility.requests(*item).values())).prompt for item in items]
    # Where the model has no chat template, the space before the answer is the answer's.
    moved = bench.generator._moved(prompts[0])
    firsts = [bench.generator._boundary.continuation(form, moved)[0] for form in utility.parameters["forms"]]

    def published(some: Sequence[Prompt]) -> list[float]:
        return abstention_full_logits(bench.generator, some, firsts)

    bench.utilities(items[:2], ["abstention"])
    published(prompts[:2])
    ours, peer = bench.alternate(lambda: bench.utilities(items, ["abstention"]), lambda: published(prompts))
    target = 20.0 if bench.model.device.type == "cuda" else 3.0
    return {"UDCG's u": bench.compared(ours, peer, len(items), "pairs", target, 1e-4)}


def grogu(bench: Bench) -> dict[str, Row]:
    """4: GroGU, three gammas at once, against ``generate(output_scores=True)`` pair by pair and a second pass."""
    items = bench.items[: bench.size.grogu]
    utilities = [make_utility(name) for name in GROGU]

    def published(some: Sequence[Item]) -> list[float]:
        return OneByOne(bench.generator).utilities(some, utilities)

    bench.utilities(items[:2], GROGU)
    published(items[:1])
    ours, peer = bench.alternate(lambda: bench.utilities(items, GROGU), lambda: published(items))
    return {"GroGU, three gammas": bench.compared(ours, peer, len(items), "pairs", 4.0, 1e-3)}


def rewrites(bench: Bench) -> dict[str, Row]:
    """5: eight sampled rewrites against ``generate(num_return_sequences=8)``."""
    prompts = bench.conversations[: bench.size.prompts]

    def ours_of(some: Sequence[Prompt]) -> list[int]:
        return [len(answer.token_ids) for row in bench.generator.generate(some, **SAMPLING) for answer in row]

    def theirs_of(some: Sequence[Prompt]) -> list[int]:
        return [len(ids) for ids in samples(bench.generator, some, SAMPLING, batch=4)]

    ours_of(prompts[:1])
    ours, peer = bench.alternate(lambda: ours_of(prompts), lambda: theirs_of(prompts))
    row = faster(ours, peer, len(prompts) * SAMPLING["n"], "rewrites", 4.0)
    return {"eight rewrites": {**row, "mean_tokens": mean(ours.result)}}


def golds(bench: Bench) -> dict[str, Row]:
    """6: log-likelihood of gold answers against the lm-evaluation-harness."""
    gold = GoldAnswers()
    # Plain text up to "Answer:" and then a space: the harness moves all white space at a prompt's end to the answer,
    # line ends of a chat template included, and would score these as well.
    texts = [
        (gold.prompt(query, passages).plain.rstrip(), f" {answer}")
        for query, passages in bench.items[: bench.size.golds]
        for answer in distinct_golds(query)
    ]
    try:
        by_batch = {batch: harness_loglikelihoods(bench.generator, batch) for batch in (1, 8)}
    except ImportError as error:
        return {"gold answers": {"ratio": None, "target": ">= 1.5", "reached": None, "left_out": str(error)}}
    tried = alternate(
        {str(batch): (lambda run=run: run(texts[:16])) for batch, run in by_batch.items()}, 1, bench.clock
    )
    best = min(tried, key=lambda batch: tried[batch].median)

    def ours_of() -> list[float]:
        scored = bench.generator.score([prompt for prompt, _ in texts], [answer for _, answer in texts])
        return [sum(each.logprobs) for each in scored]

    ours, peer = bench.alternate(ours_of, lambda: by_batch[int(best)](texts))
    row = bench.compared(ours, peer, len(texts), "requests", 1.5, 1e-4)
    # Sums over tokens in single precision differ: which way is off?
    worst = sorted(range(len(texts)), key=lambda at: -abs(ours.result[at] - peer.result[at]))[:WORST]
    exact = float64_loglikelihoods(bench.generator, [texts[at] for at in worst])
    row["from_float64"] = {
        name: max(abs(way.result[at] - value) for at, value in zip(worst, exact, strict=True))
        for name, way in (("ours", ours), ("peer", peer))
    }
    row["from_float64"]["requests"] = len(worst)
    return {"gold answers": {**row, "peer_batch": int(best), "peer_version": _version("lm_eval")}}


def memory(bench: Bench) -> dict[str, Row]:
    """7: peak memory while labelling: eight times the pairs, eight times the vocabulary (tiny random model)."""
    few, many = bench.size.memory
    small, large = bench.size.vocabulary

    def probe(pairs: int, vocabulary: int) -> int:
        command = [
            sys.executable,
            str(HERE / "memory_probe.py"),
            "--pairs",
            str(pairs),
            "--vocabulary",
            str(vocabulary),
        ]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return int(json.loads(out.splitlines()[-1])["grown"])

    mib = 1 / 2**20
    base, more_pairs, more_words = probe(few, small), probe(many, small), probe(few, large)
    # A chunk of logits, its shifted copy and their exponentials are what a vocabulary may cost.
    from utilitune.generator.entropy import MAX_LOGITS

    chunk = 4 * MAX_LOGITS
    return {
        "peak memory, pairs": at_most(
            more_pairs / max(base, 1), 1.25, pairs=[few, many], grown_mib=[base * mib, more_pairs * mib]
        ),
        "peak memory, vocabulary": at_most(
            (more_words - base) / chunk,
            4.0,
            vocabulary=[small, large],
            grown_mib=[base * mib, more_words * mib],
            chunk_mib=chunk * mib,
        ),
    }


def together(bench: Bench) -> dict[str, Row]:
    """8: several reference-free utilities at once over the dearest alone."""
    items = bench.items[: bench.size.together]
    bench.utilities(items[:2], REFERENCE_FREE)
    ways = {name: (lambda name=name: bench.utilities(items, [name])) for name in REFERENCE_FREE}
    timed = alternate({**ways, "together": lambda: bench.utilities(items, REFERENCE_FREE)}, bench.repeats, bench.clock)
    alone = {name: timed[name].median for name in REFERENCE_FREE}
    dearest = max(alone, key=alone.__getitem__)
    return {
        "three utilities together": at_most(
            timed["together"].median / alone[dearest],
            1.15,
            dearest=dearest,
            pairs=len(items),
            seconds={name: each.seconds for name, each in timed.items()},
        )
    }


SECTIONS: dict[str, Callable[[Bench], dict[str, Row]]] = {
    "1": tokens,
    "2": flops,
    "3": abstention,
    "4": grogu,
    "5": rewrites,
    "6": golds,
    "7": memory,
    "8": together,
}


def _version(package: str) -> str | None:
    from utilitune.records.manifest import version

    return version(package)


def table(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    machine = result["machine"]
    lines = [
        f"# Scoring on {machine['cpu']}, {machine['threads']} threads"
        + (f", {machine['accelerator']}" if machine["accelerator"] else ""),
        "",
        f"{result['generator']} ({result['dtype']}), {result['data']}, seed 13; Python {machine['python']}, "
        f"torch {machine['torch']}, transformers {machine['transformers']}; {result['made']}.",
        "",
        "| | ratio | target | reached | ours | peer | largest difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for section in sorted(result["sections"]):
        for name, row in result["sections"][section]["rows"].items():
            unit = f" {row['unit']}/s" if "unit" in row else ""
            rates = [f"{row[k]:.2f}{unit}" if k in row else "" for k in ("ours_per_second", "peer_per_second")]
            ratio = "left out" if row["ratio"] is None else f"{row['ratio']:.2f}"
            off = f"{row['largest_difference']:.1e}" if "largest_difference" in row else ""
            if row.get("beyond_tolerance"):
                off += f" ({row['beyond_tolerance']} of {row['numbers']} beyond {row['tolerance']:.0e})"
            reached = {True: "yes", False: "no", None: "–"}[row["reached"]]
            lines.append(f"| {name} | {ratio} | {row['target']} | {reached} | {rates[0]} | {rates[1]} | {off} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sections that are asked for and write the result after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="BEIR folder with gold answers, such as nq-litm")
    parser.add_argument("--generator", default="packaged:smollm2-135m-instruct")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=0, help="torch threads; 0 leaves them")
    parser.add_argument("--repeats", type=int, default=0, help="repeats of everything timed; 0 is the size's own")
    parser.add_argument("--pairs", type=int, default=0, help="pairs whose tokens are counted; 0 is the size's own")
    parser.add_argument("--only", default="", help="sections, such as 3,4; done again even if they are there")
    parser.add_argument(
        "--clock", choices=tuple(CLOCKS), default="wall", help="cpu: for one thread on a shared machine"
    )
    parser.add_argument("--quick", action="store_true", help="the smallest sizes")
    parser.add_argument("--out", type=Path, help="JSON file; a table goes next to it (.md)")
    options = parser.parse_args(arguments)
    unknown = [each for each in options.only.split(",") if each and each not in SECTIONS]
    if unknown:
        parser.error(f"unknown sections {unknown}; known: {', '.join(SECTIONS)}")
    if options.threads:
        torch.set_num_threads(options.threads)
    size = QUICK if options.quick else Size()
    size = replace(size, counted=options.pairs) if options.pairs else size
    out = options.out or HERE / "results" / f"scoring-{platform.machine()}-{torch.get_num_threads()}t.json"
    set_quiet(True)
    bench = Bench(options, size)
    result: dict[str, Any] = {
        "generator": options.generator,
        "dtype": str(bench.model.dtype).removeprefix("torch."),
        "data": Path(options.data).name,
        "size": "quick" if options.quick else "full",
        "clock": options.clock,
        "machine": facts(bench.model.device),
        "utilitune": _version("utilitune"),
        "numerics": bench.generator.identity.options["numerics"],
    }
    sections: dict[str, Any] = {}
    if out.is_file():
        old = json.loads(out.read_text(encoding="utf-8"))
        # Sections of another machine, model or version are not kept.
        if all(old.get(key) == value for key, value in result.items()):
            sections = old["sections"]
    wanted = [each for each in options.only.split(",") if each] or [each for each in SECTIONS if each not in sections]
    for section in wanted:
        start = time.perf_counter()
        rows = SECTIONS[section](bench)
        took = time.perf_counter() - start
        sections[section] = {"seconds": took, "rows": rows}
        made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        out.parent.mkdir(parents=True, exist_ok=True)
        whole = {**result, "made": made, "sections": sections}
        out.write_text(json.dumps(whole, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        out.with_suffix(".md").write_text(table(whole), encoding="utf-8")
        for name, row in rows.items():
            ratio = "left out" if row["ratio"] is None else f"{row['ratio']:.2f}"
            print(f"[{section}] {name}: {ratio} (target {row['target']}), section {took:.0f} s", flush=True)
    print(out)


if __name__ == "__main__":
    main()
