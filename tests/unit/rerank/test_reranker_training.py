"""Training a tiny model on a rule: a passage with the word "good" is worth more."""

from __future__ import annotations

import importlib
import json
import math
import random

import pytest
import torch
from sentence_transformers import CrossEncoder

from utilitune.errors import ConfigError, DataError
from utilitune.rerank import LOSSES, Group, Groups, Relevance, RerankerConfig, UtilityReranker, train_reranker
from utilitune.rerank.split import hold_out

FILLER = ("red", "blue", "town", "king", "river", "bridge", "mill", "old", "new")
QUICK = RerankerConfig(epochs=5, learning_rate=5e-3, batch_pairs=16, device="cpu")


def rule_groups(count, seed=0, first=0):
    generator = random.Random(seed)
    made = []
    for place in range(first, first + count):
        utilities = [1.0] + [0.0] * generator.randint(2, 5)
        generator.shuffle(utilities)
        texts = [" ".join([*generator.choices(FILLER, k=6), "good" if u else "bad"]) for u in utilities]
        query = " ".join(generator.choices(FILLER, k=4))
        ids = tuple(f"p{i}" for i in range(len(utilities)))
        made.append(Group(f"q{place}", query, ids, tuple(texts), tuple(utilities), tuple(utilities), f"c{place}"))
    # Signed, for the loss that asks for it: a passage of utility 0 neither helps nor distracts.
    return Groups(made, {"rows failed": 2}, "none", relevance=Relevance())


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_every_loss_learns_the_rule(tiny_bert, tmp_path, loss):
    config = RerankerConfig(**{**QUICK.as_dict(), "loss": loss})
    report = train_reranker(rule_groups(40), tiny_bert, tmp_path / "m", config)
    assert report.untrained.ndcg < 0.9
    assert report.kept.ndcg > 0.97 and not report.collapsed and report.warnings == []
    assert report.kept_epoch >= 1 and report.steps > 0
    reranker = UtilityReranker.load(tmp_path / "m", device="cpu")
    for group in rule_groups(10, seed=99).groups:
        scores = reranker.score(group.query, group.passages)
        assert max(range(group.size), key=scores.__getitem__) == group.utilities.index(1.0)


def test_what_is_written(tiny_bert, tmp_path):
    groups = rule_groups(20)
    report = train_reranker(groups, tiny_bert, tmp_path / "m", QUICK)
    saved = json.loads((tmp_path / "m" / "training.json").read_text())
    assert saved["base"] == tiny_bert and saved["drops"] == {"rows failed": 2}
    assert saved["config"]["target_temperature"] == 0.25  # the default, filled in
    assert saved["targets"] == {
        "rescale": "none",
        "temperature": 1.0,
        "label_sets": [],
        "relevance": {"source": "gold", "threshold": None, "gamma": pytest.approx(1 / 3)},
    }
    assert [entry["epoch"] for entry in saved["epochs"]] == [0, 1, 2, 3, 4, 5]
    assert all(math.isfinite(entry["loss"]) for entry in saved["epochs"][1:])
    assert len(saved["queries"]["train"]) == report.groups
    assert sorted(saved["queries"]["train"] + saved["queries"]["dev"]) == sorted(g.query_id for g in groups)
    assert saved["measured_on"] == "held-out" and report.groups + report.untrained.queries == 20
    train_pairs = saved["truncation"]["train"]["pairs"]
    assert train_pairs == report.pairs and train_pairs + saved["truncation"]["dev"]["pairs"] == groups.pairs
    assert saved["truncation"]["train"]["truncated_pairs"] == 0
    plain = CrossEncoder(str(tmp_path / "m"), local_files_only=True, device="cpu")
    assert isinstance(plain.activation_fn, torch.nn.Identity)
    group = groups.groups[0]
    expected = UtilityReranker.load(tmp_path / "m", device="cpu").score(group.query, group.passages)
    pairs = [(group.query, passage) for passage in group.passages]
    assert plain.predict(pairs).tolist() == pytest.approx(expected, abs=1e-5)


def test_same_seed_same_weights(tiny_bert, tmp_path):
    weights = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        config = RerankerConfig(**{**QUICK.as_dict(), "epochs": 1, "seed": seed})
        train_reranker(rule_groups(12), tiny_bert, tmp_path / name, config, dev_groups=rule_groups(4, 3, 100))
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


def test_a_collapse_is_loud_and_the_untrained_model_is_kept(tiny_bert, tmp_path, capsys):
    config = RerankerConfig(**{**QUICK.as_dict(), "learning_rate": 1.0, "epochs": 3, "loss": "bce"})
    report = train_reranker(rule_groups(30), tiny_bert, tmp_path / "m", config)
    assert report.collapsed and report.kept_epoch == 0
    assert report.kept == report.untrained
    assert "untrained model was kept" in report.warnings[0]
    assert report.warnings[0] in capsys.readouterr().err
    kept = UtilityReranker.load(tmp_path / "m", device="cpu").score("king", ["good", "bad"])
    start = UtilityReranker.untrained(tiny_bert, seed=config.seed, device="cpu").score("king", ["good", "bad"])
    assert kept == pytest.approx(start, abs=1e-7)


def test_training_that_makes_a_good_model_worse_keeps_the_good_one(tiny_bert, tmp_path):
    train_reranker(rule_groups(40), tiny_bert, tmp_path / "good", QUICK)
    turned = Groups(
        [
            Group(g.query_id, g.query, g.passage_ids, g.passages, u := tuple(1 - x for x in g.utilities), u)
            for g in rule_groups(30)
        ]
    )
    config = RerankerConfig(**{**QUICK.as_dict(), "min_spread": 0.0})
    report = train_reranker(
        turned, str(tmp_path / "good"), tmp_path / "worse", config, dev_groups=rule_groups(10, 7, 500)
    )
    assert report.untrained.ndcg > 0.97  # a trained base keeps its own head
    assert report.collapsed and report.kept_epoch == 0 and "made it worse" in report.warnings[0]


def test_no_groups_and_wrong_labels_fail_before_a_model_is_loaded(tmp_path):
    nowhere = str(tmp_path / "no-such-base")
    with pytest.raises(DataError, match="no training groups"):
        train_reranker([], nowhere, tmp_path / "m")
    flat = [Group("q", "x", ("a", "b"), ("s", "t"), (0.5, 0.5), (0.5, 0.5))]
    with pytest.raises(ConfigError, match="nothing to learn"):
        train_reranker(flat, nowhere, tmp_path / "m")
    wide = [Group("q", "x", ("a", "b", "c"), ("s", "t", "u"), (-2.0, 0.3, 5.0), (-2.0, 0.3, 5.0))]
    with pytest.raises(ConfigError, match=r"\[0, 1\]"):
        train_reranker(wide, nowhere, tmp_path / "m", RerankerConfig(loss="bce"))


def test_integer_utilities_train(tiny_bert, tmp_path):
    integers = [
        Group(g.query_id, g.query, g.passage_ids, g.passages, u := tuple(int(x) for x in g.utilities), u)
        for g in rule_groups(12)
    ]
    for loss in ("margin-mse", "bce"):
        config = RerankerConfig(**{**QUICK.as_dict(), "epochs": 1, "loss": loss})
        report = train_reranker(integers, tiny_bert, tmp_path / loss, config)
        assert math.isfinite(report.epochs[-1].loss)


def test_conversations_on_both_sides_are_refused(tiny_bert, tmp_path):
    with pytest.raises(DataError, match="split by conversation"):
        train_reranker(rule_groups(8), tiny_bert, tmp_path / "m", QUICK, dev_groups=rule_groups(2))


def test_without_held_out_queries_the_report_says_so(tiny_bert, tmp_path):
    config = RerankerConfig(**{**QUICK.as_dict(), "epochs": 1, "dev_share": 0.0})
    report = train_reranker(rule_groups(12), tiny_bert, tmp_path / "m", config)
    assert report.measured_on == "train"
    assert any("no held-out queries" in message for message in report.warnings)


def test_truncated_training_pairs_are_reported(tiny_bert, tmp_path):
    long = [
        Group(
            g.query_id, g.query, g.passage_ids, tuple(f"{p} " + "town " * 100 for p in g.passages), *[g.utilities] * 2
        )
        for g in rule_groups(12)
    ]
    config = RerankerConfig(**{**QUICK.as_dict(), "epochs": 1, "max_length": 32})
    report = train_reranker(long, tiny_bert, tmp_path / "m", config)
    assert report.max_length == 32
    assert report.truncation["train"]["truncated_passages"] == report.pairs
    assert any("100% of the training pairs" in message for message in report.warnings)


def test_a_decoder_without_pad_trains_in_batches(tiny_gpt2, tmp_path):
    report = train_reranker(rule_groups(30), tiny_gpt2, tmp_path / "m", QUICK)
    assert report.kept.ndcg > 0.95


class TestHoldOut:
    """The split of groups into training and dev."""

    def test_conversations_stay_together_and_nothing_is_lost(self):
        groups = [Group(f"q{i}", "x", (), (), (), (), f"c{i // 3}") for i in range(90)]
        train, dev = hold_out(groups, 0.3, 13)
        assert sorted(g.query_id for g in train + dev) == sorted(g.query_id for g in groups)
        assert not {g.conversation for g in train} & {g.conversation for g in dev}
        assert 10 < len(dev) < 50

    def test_more_groups_do_not_move_the_others(self):
        groups = rule_groups(60).groups
        few, many = (hold_out(groups[:size], 0.3, 13)[1] for size in (30, 60))
        assert [g for g in many if g in groups[:30]] == few

    @pytest.mark.parametrize("share", [0.001, 0.999])
    def test_neither_side_is_empty(self, share):
        train, dev = hold_out(rule_groups(3).groups, share, 13)
        assert train and dev

    def test_share_zero_holds_nothing_out(self):
        assert hold_out(rule_groups(5).groups, 0.0, 13)[1] == []


def test_the_package_opens_without_torch():
    import subprocess
    import sys

    code = (
        "import sys, utilitune.rerank as r; r.build_groups; r.RerankerConfig().check(); r.LOSSES; "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert set(importlib.import_module("utilitune.rerank").__all__) >= {"build_groups", "UtilityReranker"}
