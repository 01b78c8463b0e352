"""Training tiny decoders on a rule: a passage with the word "red" is worth more."""

from __future__ import annotations

import json
import random

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.rerank import DecoderConfig, Group, Groups, RerankerConfig, UtilityReranker, train_reranker

FILLER = ("town", "king", "river", "bridge", "mill", "old", "new")
QUICK = RerankerConfig(epochs=3, learning_rate=1e-2, batch_pairs=16, device="cpu")


def decoder(head="yes-no"):
    return DecoderConfig(head=head, yes="good", no="bad", lora_r=4)


def rule_groups(count, seed=0, first=0):
    generator = random.Random(seed)
    made = []
    for place in range(first, first + count):
        utilities = [1.0] + [0.0] * generator.randint(2, 4)
        generator.shuffle(utilities)
        texts = tuple(" ".join([*generator.choices(FILLER, k=5), "red" if u else "blue"]) for u in utilities)
        query = " ".join(generator.choices(FILLER, k=3))
        ids = tuple(f"p{i}" for i in range(len(utilities)))
        made.append(Group(f"q{place}", query, ids, texts, tuple(utilities), tuple(utilities), f"c{place}"))
    return Groups(made)


@pytest.fixture(scope="module")
def trained(tiny_llama, tmp_path_factory):
    out = tmp_path_factory.mktemp("decoder") / "m"
    return train_reranker(rule_groups(30), tiny_llama, out, QUICK, decoder=decoder()), out


def knows_the_rule(report, out):
    assert report.untrained.ndcg < 0.9 < report.kept.ndcg and not report.collapsed
    reranker = UtilityReranker.load(out, device="cpu")
    for group in rule_groups(8, seed=99).groups:
        scores = reranker.score(group.query, group.passages)
        assert max(range(group.size), key=scores.__getitem__) == group.utilities.index(1.0)


def test_yes_and_no_learn_the_rule(trained):
    report, out = trained
    knows_the_rule(report, out)
    saved = json.loads((out / "training.json").read_text())
    assert saved["config"]["decoder"]["head"] == "yes-no" and saved["max_length"] == report.max_length
    assert saved["truncation"]["train"]["truncated_queries"] == 0


@pytest.mark.parametrize(
    ("kind", "head", "loss"),
    [("tiny_llama", "classification", "listwise-kl"), ("tiny_gpt2", "yes-no", "margin-mse")],
)
def test_other_heads_losses_and_architectures_do(kind, head, loss, request, tmp_path):
    config = RerankerConfig(**{**QUICK.as_dict(), "loss": loss})
    base = request.getfixturevalue(kind)
    knows_the_rule(train_reranker(rule_groups(30), base, tmp_path / "m", config, decoder=decoder(head)), tmp_path / "m")


def test_a_collapse_keeps_the_untrained_adapter(tiny_llama, tmp_path):
    config = RerankerConfig(**{**QUICK.as_dict(), "epochs": 1, "min_spread": 1e6})
    report = train_reranker(rule_groups(12), tiny_llama, tmp_path / "m", config, decoder=decoder())
    assert report.collapsed and report.kept_epoch == 0
    from utilitune.rerank.decoder_model import new_decoder

    start = UtilityReranker(new_decoder(tiny_llama, decoder(), seed=config.seed, device="cpu"))
    kept = UtilityReranker.load(tmp_path / "m", device="cpu")
    assert kept.score("king", ["red", "blue"]) == pytest.approx(start.score("king", ["red", "blue"]), abs=1e-6)


def test_training_goes_on_from_a_trained_one(trained, tmp_path):
    _, first = trained
    config = RerankerConfig(**{**QUICK.as_dict(), "epochs": 1, "learning_rate": 1e-4})
    more = rule_groups(8, seed=5, first=100)
    report = train_reranker(more, str(first), tmp_path / "second", config, decoder=decoder())
    assert report.untrained.ndcg > 0.9
    card = json.loads((tmp_path / "second" / "reranker.json").read_text())
    assert not card["base"].endswith("/m")  # the base is the language model, not the adapter it went on from
    assert UtilityReranker.load(tmp_path / "second", device="cpu").score("king", ["red"])


def test_same_seed_same_adapter(tiny_llama, tmp_path):
    files = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        config = RerankerConfig(**{**QUICK.as_dict(), "epochs": 1, "seed": seed})
        dev = rule_groups(2, 3, 100)
        train_reranker(rule_groups(4), tiny_llama, tmp_path / name, config, dev_groups=dev, decoder=decoder())
        files.append((tmp_path / name / "adapter_model.safetensors").read_bytes())
    assert files[0] == files[1] != files[2]


def test_the_commands(tiny_llama, tmp_path):
    from utilitune.records import (
        Dataset,
        Labels,
        Passage,
        Query,
        Run,
        UtilityLabel,
        write_dataset,
        write_labels,
        write_run,
    )

    groups = rule_groups(12).groups
    passages = [Passage(f"{g.query_id}-{i}", text) for g in groups for i, text in enumerate(g.passages)]
    write_dataset(tmp_path / "data", Dataset(passages, [Query(g.query_id, g.query) for g in groups]))
    rows = [
        UtilityLabel(g.query_id, (f"{g.query_id}-{i}",), u, "ok", "information-gain@00000001", {})
        for g in groups
        for i, u in enumerate(g.utilities)
    ]
    write_labels(tmp_path / "labels.jsonl", Labels(rows))
    run = Run({g.query_id: [(f"{g.query_id}-{i}", -float(i)) for i in range(3)] for g in groups})
    write_run(tmp_path / "run.trec", run)
    out = str(tmp_path / "m")
    train = ["train", "reranker", str(tmp_path / "data"), "--labels", str(tmp_path / "labels.jsonl"), "--out", out]
    train += [
        "--base",
        tiny_llama,
        "--decoder",
        "classification",
        "--lora-r",
        "4",
        "--epochs",
        "1",
        "--lr",
        "0.01",
        "-q",
    ]
    done = CliRunner().invoke(app, train)
    assert done.exit_code == 0, done.output
    rerank = ["rerank", str(tmp_path / "data"), "--run", str(tmp_path / "run.trec"), "--reranker", out]
    done = CliRunner().invoke(app, [*rerank, "--out", str(tmp_path / "reranked.trec"), "-q"])
    assert done.exit_code == 0, done.output
    assert "12 queries reranked" in done.output
