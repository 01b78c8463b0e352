"""Training a tiny encoder on a rule: a passage with the word "good" is worth more."""

from __future__ import annotations

import json
import math
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.rerank import Group, Groups, RetrieverConfig, train_retriever
from utilitune.rerank.student.evaluator import PoolEvaluator
from utilitune.retrieval import DenseRetriever
from utilitune.retrieval.encoder import Encoder

FILLER = ("red", "blue", "town", "king", "river", "bridge", "mill", "old", "new")
# Of the pool only what the held-out groups bring: all useful passages are equally near to all questions.
QUICK = RetrieverConfig(epochs=3, learning_rate=5e-3, batch_pairs=24, device="cpu", pool=1)


def rule_groups(count, seed=0, first=0):
    generator = random.Random(seed)
    made = []
    for place in range(first, first + count):
        utilities = [1.0] + [0.0] * generator.randint(2, 4)
        generator.shuffle(utilities)
        texts = tuple(" ".join([*generator.choices(FILLER, k=5), "good" if u else "bad"]) for u in utilities)
        query = " ".join(generator.choices(FILLER, k=3))
        ids = tuple(f"p{place}-{i}" for i in range(len(utilities)))
        made.append(Group(f"q{place}", query, ids, texts, tuple(utilities), tuple(utilities), f"c{place}"))
    return Groups(made, {"rows failed": 2})


def changed(**settings):
    return RetrieverConfig(**{**QUICK.as_dict(), **settings})


@pytest.fixture(scope="module")
def trained(tiny_encoder, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "encoder"
    return train_retriever(rule_groups(30), tiny_encoder, out, QUICK), out


def test_it_learns_the_rule_and_says_so(trained):
    report, out = trained
    assert report.kept.ndcg > report.untrained.ndcg + 0.2 and not report.collapsed and report.warnings == []
    saved = json.loads((out / "training.json").read_text())
    assert [entry["epoch"] for entry in saved["epochs"]] == [0, 1, 2, 3]
    assert saved["epochs"][0]["loss"] is None and all(math.isfinite(e["loss"]) for e in saved["epochs"][1:])
    assert saved["kept_epoch"] == max(report.epochs[1:], key=lambda entry: entry.dev.ndcg).epoch
    assert saved["teacher"] == [] and saved["drops"] == {"rows failed": 2} and saved["resumed_from"] == 0
    assert saved["counts"]["in_batch_negatives"] > 0 and saved["counts"]["passages_cut"] == 0
    # The defaults, filled in: scores of the untrained encoder vary as the targets do.
    assert saved["config"]["target_temperature"] == 0.25
    spread = np.mean(
        [np.std(group.targets) for group in rule_groups(30) if group.query_id in saved["queries"]["train"]]
    )
    assert saved["config"]["score_temperature"] == pytest.approx(report.untrained.spread * 0.25 / spread, rel=0.01)
    assert sorted(saved["queries"]["train"] + saved["queries"]["dev"]) == sorted(f"q{i}" for i in range(30))


def test_the_folder_is_an_encoder_for_an_index(trained, tmp_path):
    from utilitune.records import Passage, Query

    report, out = trained
    corpus = [Passage(f"{word}-{key}", f"{key} old {word}") for word in ("good", "bad") for key in FILLER]
    DenseRetriever.build(corpus, encoder=out).save(tmp_path / "index")
    found = DenseRetriever.load(tmp_path / "index").search([Query("q", "red town")], k=len(FILLER))
    assert {pid.split("-")[0] for pid, _ in found["q"]} == {"good"}
    assert Encoder(out).identity.prompts["query"] == "who is the " == report.prompts["query"]


def test_margins_learn_it_without_the_in_batch_loss(tiny_encoder, tmp_path):
    config = changed(loss="margin-mse", in_batch=0.0, epochs=2)
    report = train_retriever(rule_groups(30), tiny_encoder, tmp_path / "m", config)
    assert report.kept.ndcg > report.untrained.ndcg + 0.1
    assert report.counts["in_batch_negatives"] == 0


def test_the_saved_weights_are_those_of_the_kept_epoch(trained, tiny_encoder):
    from utilitune.rerank.split import hold_out
    from utilitune.rerank.student.pool import Pool

    report, out = trained
    train, dev = hold_out(rule_groups(30).groups, QUICK.dev_share, QUICK.seed)
    pool, encoder = Pool.of(dev, train, QUICK.pool), Encoder(out)
    found = pool.measure(encoder.queries([g.query for g in dev]), encoder.passages(list(pool.texts)))
    assert found.ndcg == pytest.approx(report.kept.ndcg, abs=1e-6)
    start = Encoder(tiny_encoder)
    untrained = pool.measure(start.queries([g.query for g in dev]), start.passages(list(pool.texts)))
    # Retrieval and training agree on prompts, pooling and lengths.
    assert untrained.as_dict() == pytest.approx(report.untrained.as_dict(), abs=1e-6)


def weights(folder):
    return (Path(folder) / "model.safetensors").read_bytes()


def test_same_seed_same_weights(tiny_encoder, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        config = changed(epochs=1, seed=seed)
        train_retriever(rule_groups(5), tiny_encoder, tmp_path / name, config, dev_groups=rule_groups(2, 3, 100))
    assert weights(tmp_path / "a") == weights(tmp_path / "b") != weights(tmp_path / "c")


def test_resumed_training_equals_uninterrupted(trained, tiny_encoder, tmp_path, monkeypatch):
    measure = PoolEvaluator.__call__

    def killed(self, model, output_path=None, epoch=-1, steps=-1):
        if round(epoch) == 2:
            raise KeyboardInterrupt
        return measure(self, model, output_path, epoch, steps)

    monkeypatch.setattr(PoolEvaluator, "__call__", killed)
    with pytest.raises(KeyboardInterrupt):
        train_retriever(rule_groups(30), tiny_encoder, tmp_path / "m", QUICK)
    monkeypatch.undo()
    whole, out = trained
    # The best epoch is the one before: it has to be found where the folder is now.
    (tmp_path / "m").rename(tmp_path / "moved")
    resumed = train_retriever(rule_groups(30), tiny_encoder, tmp_path / "moved", QUICK, resume=True)
    assert 0 < resumed.resumed_from < whole.steps == resumed.steps
    assert weights(tmp_path / "moved") == weights(out)
    assert [e.dev for e in resumed.epochs] == [e.dev for e in whole.epochs]
    assert [e.loss for e in resumed.epochs] == [e.loss for e in whole.epochs]
    again = train_retriever(rule_groups(30), tiny_encoder, tmp_path / "moved", QUICK, resume=True)
    assert again.steps == whole.steps and weights(tmp_path / "moved") == weights(out)


def test_resume_refuses_another_run_and_passes_over_a_torn_checkpoint(trained, tiny_encoder, tmp_path):
    _, out = trained
    shutil.copytree(out, tmp_path / "m")
    with pytest.raises(ConfigError, match="config changed"):
        train_retriever(rule_groups(30), tiny_encoder, tmp_path / "m", changed(epochs=5), resume=True)
    with pytest.raises(ConfigError, match="groups changed"):
        train_retriever(rule_groups(31), tiny_encoder, tmp_path / "m", QUICK, resume=True)
    for state in (tmp_path / "m" / "checkpoints").glob("checkpoint-*/trainer_state.json"):
        state.write_text(state.read_text()[:40])
    again = train_retriever(rule_groups(30), tiny_encoder, tmp_path / "m", QUICK, resume=True)
    assert again.resumed_from == 0 and weights(tmp_path / "m") == weights(out)


def test_a_collapse_is_loud_and_the_untrained_encoder_is_kept(tiny_encoder, tmp_path, capsys):
    report = train_retriever(rule_groups(10), tiny_encoder, tmp_path / "m", changed(min_spread=5.0, epochs=1))
    assert report.collapsed and report.kept_epoch == 0 and report.kept == report.untrained
    assert "untrained encoder was kept" in report.warnings[0] and report.warnings[0] in capsys.readouterr().err
    assert Encoder(tmp_path / "m").identity.weights == Encoder(tiny_encoder).identity.weights


def test_training_that_makes_it_worse_keeps_the_start(trained, tmp_path):
    _, good = trained
    turned = Groups(
        [
            Group(g.query_id, g.query, g.passage_ids, g.passages, u := tuple(1 - x for x in g.utilities), u)
            for g in rule_groups(30)
        ]
    )
    config = changed(epochs=1, in_batch=0.0, min_spread=0.0)
    report = train_retriever(turned, str(good), tmp_path / "m", config, dev_groups=rule_groups(8, 7, 500))
    assert report.collapsed and "made it worse" in report.warnings[0]
    assert weights(tmp_path / "m") == weights(good)


class Oracle:
    """A teacher that knows the rule and contradicts the labels that it is given."""

    def score_pairs(self, pairs):
        return [5.0 if "good" in passage else -5.0 for _, passage in pairs]


def test_a_teacher_outvotes_the_training_labels_but_not_the_measure(tiny_encoder, tmp_path):
    noise = random.Random(3)
    blind = Groups(
        [
            Group(g.query_id, g.query, g.passage_ids, g.passages, u := tuple(noise.random() for _ in g.passages), u)
            for g in rule_groups(30)
        ]
    )
    dev = rule_groups(8, 9, 500)
    config = changed(epochs=1)
    report = train_retriever(blind, tiny_encoder, tmp_path / "m", config, dev_groups=dev, teacher=Oracle())
    assert report.teacher == ["reranker"] and report.measured_on == "given"
    assert report.kept.ndcg > report.untrained.ndcg + 0.2


def test_long_texts_are_counted_and_warned_about(tiny_encoder, tmp_path):
    long = [
        Group(g.query_id, g.query, g.passage_ids, tuple(f"{p} " + "town " * 50 for p in g.passages), *[g.utilities] * 2)
        for g in rule_groups(12)
    ]
    report = train_retriever(long, tiny_encoder, tmp_path / "m", changed(epochs=1, max_length=16))
    assert report.max_length == 16 and report.counts["passages_cut"] == report.pairs
    assert any("longer than the encoder's window of 16" in message for message in report.warnings)


def test_wrong_input_fails_before_a_model_is_loaded(tmp_path):
    nowhere = str(tmp_path / "no-such-encoder")
    with pytest.raises(DataError, match="no training groups"):
        train_retriever([], nowhere, tmp_path / "m")
    with pytest.raises(ConfigError, match=r"loss 'x' is unknown; known: listwise-kl, margin-mse.*epochs 0 must be"):
        train_retriever(rule_groups(5), nowhere, tmp_path / "m", RetrieverConfig(loss="x", epochs=0))
    with pytest.raises(ConfigError, match="nothing to learn"):
        flat = [Group("q", "x", ("a", "b"), ("s", "t"), (0.5, 0.5), (0.5, 0.5))]
        train_retriever(flat, nowhere, tmp_path / "m")
    with pytest.raises(DataError, match="1 groups have one candidate"):
        train_retriever([*rule_groups(5), Group("q", "x", ("a",), ("s",), (0.5,), (0.5,))], nowhere, tmp_path / "m")
    with pytest.raises(DataError, match="split by conversation"):
        train_retriever(rule_groups(5), nowhere, tmp_path / "m", dev_groups=rule_groups(2))


def test_prompts_reach_the_encoder_in_training(tiny_encoder):
    """The tokens of a training batch are those that retrieval encodes."""
    from sentence_transformers.base.data_collator import BaseDataCollator

    from utilitune.rerank.student.arguments import training_arguments
    from utilitune.rerank.student.base import open_student, prompts_of

    model = open_student(tiny_encoder, QUICK)
    options = {"batch": 2, "steps": 9, "places": 2, "prompts": prompts_of(model), "fresh": True, "on_cpu": True}
    made = training_arguments(QUICK, Path("unused"), **options)
    collate = BaseDataCollator(model.preprocess, prompts=made.prompts, router_mapping=made.router_mapping)
    batch = collate([{"query": "red", "passage_0": "king", "passage_1": "mill town", "label": [1.0, 0.0]}])
    decode = model.tokenizer.decode
    assert decode(batch["query_input_ids"][0], skip_special_tokens=True) == "who is the red"
    assert decode(batch["passage_1_input_ids"][0], skip_special_tokens=True) == "a mill town"
    features = {"input_ids": batch["query_input_ids"], "attention_mask": batch["query_attention_mask"]}
    vector = model(features)["sentence_embedding"].detach().numpy()
    assert np.allclose(vector, Encoder(tiny_encoder).queries(["red"]), atol=1e-6)
