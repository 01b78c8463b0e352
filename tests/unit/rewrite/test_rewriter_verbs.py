"""The rewriter's verbs one after the other, on a tiny world and a random model."""

import json

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.errors import ConfigError
from utilitune.records import load_dataset, read_pairs
from utilitune.retrieval import Bm25Retriever
from utilitune.rewrite import BestOf, Rewriter, read_candidates
from utilitune.scoring import make_utility

NAMES = ["mira", "tolve", "orlen", "river", "mill", "bridge", "glass", "town"]


def rows(*many):
    return "".join(json.dumps(row) + "\n" for row in many)


def run(*words):
    done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    data = folder / "data"
    data.mkdir()
    corpus = [{"_id": f"p{n}", "text": f"{name} did live in {NAMES[n - 1]} town"} for n, name in enumerate(NAMES)]
    queries = [
        {
            "_id": f"c{n}_2",
            "text": f"where did {'it' if n % 2 else 'she'} live",
            "history": [{"role": "user", "content": f"who is {name}"}, {"role": "assistant", "content": "a town"}],
        }
        for n, name in enumerate(NAMES)
    ]
    (data / "corpus.jsonl").write_text(rows(*corpus))
    (data / "queries.jsonl").write_text(rows(*queries))
    lines = "".join(f"c{n}_2\tp{n}\t1\n" for n in range(len(NAMES)))
    (data / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    run("index", data, "--out", folder / "bm25", "-q")
    return folder


@pytest.fixture(scope="module")
def pairs(world, tiny_base):
    out = world / "pairs.jsonl"
    models = ("--generator", tiny_base, "--rewriter", tiny_base)
    named = ("--include", "first-question", "--include", "history", "--include", "keywords")
    kinds = ("-n", 1, "-u", "entropy-drop", *named)
    said = run("pairs", world / "data", "-i", world / "bm25", *models, *kinds, "--keep", 1.0, "--out", out, "--explain")
    return out, said


def test_pairs_explain_shows_the_table_and_pairs(pairs):
    out, said = pairs
    made = list(read_pairs(out))
    assert f"pairs kept{len(made):>15}" in said and "  margin " in said
    assert "bm25: the chosen side ranks the gold passage higher" in said or "bm25: none of" in said
    assert f"{made[0].chosen[0]['content']}  [" in said
    candidates = read_candidates(out.with_suffix(".candidates.jsonl"))
    assert {"original", "first-question", "keywords"} <= {row.source for row in candidates}


def test_pairs_by_gold_rank_prefer_what_finds_the_gold(world, tiny_base, tmp_path):
    out = tmp_path / "gold.jsonl"
    models = ("--generator", tiny_base, "--rewriter", tiny_base)
    kinds = ("-n", 1, "-u", "gold-rank", "--include", "first-question", "--pairing", "all", "--per-query", 3)
    run("pairs", world / "data", "-i", world / "bm25", *models, *kinds, "--keep", 1.0, "--out", out, "-q")
    made = list(read_pairs(out))
    assert made
    for pair in made:
        gold = f"p{pair.query_id[1]}"
        sides = (pair.chosen_passages, pair.rejected_passages)
        ranks = [ids.index(gold) if gold in ids else 3 for ids in sides]
        assert ranks[0] < ranks[1] or ranks == [3, 3]  # both below the three that are kept


def test_pairs_of_what_the_model_wrote_come_from_the_same_candidates(pairs, world, tiny_base, tmp_path):
    rewarded = pairs[0].with_suffix(".candidates.jsonl")
    out = tmp_path / "own.jsonl"
    words = ("pairs", world / "data", "--candidates", rewarded, "--rewriter", tiny_base, "--keep", 1, "--out", out)
    said = run(*words, "--pairing", "all", "--per-query", 9, "--source", "sample", "--source", "original", "-q")
    sources = {(row.query_id, row.text): row.source for row in read_candidates(rewarded)}
    sides = [(pair.query_id, one[0]["content"]) for pair in read_pairs(out) for one in (pair.chosen, pair.rejected)]
    assert sides and {sources[side] for side in sides} <= {"sample", "original"}
    assert "candidates of other sources left out" in said
    assert "sources mine are unknown" in failure(*words, "--source", "mine")


def test_one_shape_trains_by_all_methods_and_the_result_rewrites(world, pairs, tiny_base, tmp_path):
    file, _ = pairs
    common = ("--base", tiny_base, "--batch-size", 2, "--lora-r", 4, "--max-new-tokens", 6, "--save-every", 0, "-q")
    said = run("train", "rewriter", file, "--method", "sft", "--out", tmp_path / "sft", *common)
    assert "adapter written" in said
    start = ("--start", tmp_path / "sft")
    run("train", "rewriter", file, "--method", "dpo", *start, "--epochs", 1, "--out", tmp_path / "dpo", *common)
    # A second round, of what the imitating rewriter writes.
    again, reader = tmp_path / "again.jsonl", ("-i", world / "bm25", "-g", tiny_base, "-u", "entropy-drop", "-k", 1)
    more = ("--rewriter", tmp_path / "sft", "--include", "first-question", "-n", 3, "--keep", 1.0)
    run("pairs", world / "data", *reader, *more, "--out", again, "-q")
    assert {pair.query_id for pair in read_pairs(again)} <= {f"c{n}_2" for n in range(len(NAMES))}
    live = ("--data", world / "data", "-i", world / "bm25", "-g", tiny_base, "-u", "entropy-drop", "-k", 1)
    anchors = ("--anchors", file.with_suffix(".candidates.jsonl"))
    last = ("--start", tmp_path / "dpo", "--generations", 2, *anchors, "--out", tmp_path / "grpo")
    run("train", "rewriter", file, "--method", "grpo", *last, *live, *common)
    methods = [json.loads((tmp_path / m / "rewriter.json").read_text())["method"] for m in ("sft", "dpo", "grpo")]
    assert methods == ["sft", "dpo", "grpo"]
    assert (tmp_path / "grpo" / "store.sqlite").is_file()

    reader = ("-i", world / "bm25", "-g", tiny_base, "-u", "entropy-drop", "-k", 1)
    out = tmp_path / "rewrites.jsonl"
    run("rewrite", world / "data", "--rewriter", tmp_path / "grpo", "--best-of", 2, *reader, "--out", out, "-q")
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["query_id"] for row in written] == [f"c{n}_2" for n in range(len(NAMES))]
    assert all(row["text"] for row in written)

    hub = tmp_path / "hub"
    run("train", "export", tmp_path / "grpo", "--out", hub, "--merge", "--metric", "MRR@10=0.5", "-q")
    assert "| MRR@10 | 0.5000 |" in (hub / "README.md").read_text()
    run("rewrite", world / "data", "--rewriter", hub, "--out", tmp_path / "again.jsonl", "-q")


OWN = """
from zlib import crc32

from utilitune.scoring import Value


class Drawn:
    name, needs_answers, parameters = "drawn", False, {}

    def requests(self, query, passages):
        return {}

    def value(self, query, passages, responses):
        return Value(float(crc32(passages[0].id.encode()) % 17))
"""


def test_the_best_of_several_is_by_the_reward_that_is_asked_for(world, tiny_base, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    reader = ("-i", world / "bm25", "-g", tiny_base, "-u", f"{tmp_path / 'own.py'}:Drawn", "-k", 3)

    def chosen(name, *options):
        words = ("--rewriter", tiny_base, "--best-of", 1, *reader, *options, "--out", tmp_path / name, "-q")
        run("rewrite", world / "data", *words)
        return [json.loads(line)["text"] for line in (tmp_path / name).read_text().splitlines()]

    by_max = chosen("max.jsonl")
    by_mean = chosen("mean.jsonl", "--aggregate", "mean", "--scale", "raw", "--fused")
    assert by_max != by_mean

    own = set(chosen("own.jsonl", "--include", "greedy"))
    assert own != set(by_max)
    dataset = load_dataset(world / "data")
    assert not {turn.first_and_last for turn in dataset.queries} & own
    for made, options in ((by_max, {}), (by_mean, {"aggregate": "mean", "scale": "raw", "fused": True})):
        writer = Rewriter.load(str(tiny_base))
        retrievers = {"bm25": Bm25Retriever.load(world / "bm25")}
        utilities = [make_utility(f"{tmp_path / 'own.py'}:Drawn")]
        best = BestOf(writer, retrievers, dataset.corpus, utilities, writer.generator, n=1, k=3, **options)
        assert [each.text for each in best.rewrite_batch(list(dataset.queries))] == made


def failure(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    assert isinstance(done.exception, ConfigError), (done.output, done.exception)
    return str(done.exception)


def test_what_is_missing_or_unknown_is_said_before_any_work(tmp_path):
    out = ("--out", tmp_path / "out")
    assert "Missing argument 'pairs'" in CliRunner().invoke(app, [*map(str, ("train", "rewriter", *out))]).output
    assert "expected one of: sft, dpo, grpo" in failure("train", "rewriter", "p.jsonl", "--method", "ppo", *out)
    assert "--data FOLDER" in failure("train", "rewriter", "p.jsonl", "--method", "grpo", *out)
    said = failure("train", "rewriter", "p.jsonl", "--reference", "other", "--beta", -1, *out)
    assert "2 problem(s)" in said and "--reference" in said and "--beta" in said
    best = ("rewrite", "data", "--best-of", 2, "--out", tmp_path / "x.jsonl")
    assert "give --index" in failure(*best)
    assert "known: mean" in failure(*best, "-i", "bm25", "--aggregate", "median")
    assert "candidates human are unknown" in failure(*best, "-i", "bm25", "--include", "human")
    assert "known: pooled" in failure(*best, "-i", "bm25", "--scale", "log")
    assert "expected NAME=VALUE" in failure("train", "export", "x", "--metric", "MRR", *out)


def test_options_of_the_live_reward_change_nothing_elsewhere(tmp_path):
    (tmp_path / "p.jsonl").write_text("")
    words = ["train", "rewriter", tmp_path / "p.jsonl", "--method", "sft", "-k", 3, "--out", tmp_path / "o"]
    done = CliRunner().invoke(app, [*map(str, words)])
    assert "reads pairs alone, so these change nothing: -k" in done.output
    assert "nothing to train on" in str(done.exception)


def test_options_of_the_choice_change_nothing_without_one(world, tiny_base, tmp_path):
    words = ("rewrite", world / "data", "--rewriter", tiny_base, "--limit", 1, "--out", tmp_path / "x.jsonl")
    said = run(*words, "-k", 2, "--aggregate", "mean", "--fused")
    assert "without --best-of it is the greedy rewrite that is taken, so these change nothing: -k, --aggregate" in said
    assert "change nothing" not in run(*words)
