"""Imitation, and preference training that starts from it."""

import json
import math
import shutil

import pytest

from utilitune.errors import ConfigError, DataError, UtilituneError
from utilitune.records import PreferencePair
from utilitune.rewrite import DpoConfig, NoPairsError, SftConfig, train_dpo, train_sft
from utilitune.rewrite.sft import best_chosen

QUICK = {"batch_size": 2, "lora_r": 4, "lora_alpha": 8, "max_length": 64, "lr": 1e-2, "warmup": 0.0}


def pair(name, chosen="what did mira found", rejected="what did she found", utility=1.0):
    return PreferencePair(
        query_id=name,
        prompt=({"role": "user", "content": f"last question {name} what did she found"},),
        chosen=({"role": "assistant", "content": chosen},),
        rejected=({"role": "assistant", "content": rejected},),
        chosen_utility=utility,
        rejected_utility=0.0,
    )


@pytest.fixture(scope="module")
def pairs():
    words = ["one", "two", "three", "four", "five", "six"]
    return [pair(word, f"{word} did mira found the mill", f"{word} it") for word in words]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_base, pairs):
    """An uninterrupted run of 6 steps with dropout, checkpoints every 2."""
    out = tmp_path_factory.mktemp("sft") / "rewriter"
    config = SftConfig(**QUICK, epochs=2, save_every=2, lora_dropout=0.1)
    return out, config, train_sft(pairs, str(tiny_base), out, config)


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "adapter_model.safetensors")


def same(one, two):
    import torch

    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_the_best_distinct_rewrites_of_each_question():
    rows = [pair("q", "a", utility=1.0), pair("q", "B", utility=3.0), pair("q", "b ", utility=2.0), pair("r", "c")]
    assert [p.chosen[0]["content"] for p in best_chosen(rows, 1)] == ["B", "c"]
    assert [p.chosen[0]["content"] for p in best_chosen(rows, 5)] == ["B", "a", "c"]


def test_first_loss_is_the_base_models_loss_a_completion_token(trained, tiny_base, tiny_tokenizer, pairs):
    """Recomputed with plain transformers over the first batch; no prompt token counts."""
    import torch
    from transformers import AutoModelForCausalLM

    from utilitune.rewrite.chat_format import ChatFormat

    _, _, report = trained
    model, chat = AutoModelForCausalLM.from_pretrained(tiny_base), ChatFormat.of(tiny_tokenizer)
    losses = {}
    with torch.no_grad():
        for one in pairs:
            asked, answered = chat.asked_and_answered(one.prompt, one.chosen)
            logprobs = model(torch.tensor([asked + answered])).logits[0].log_softmax(-1)
            at = range(len(asked) - 1, len(asked) + len(answered) - 1)
            losses[one.query_id] = [-float(logprobs[i, token]) for i, token in zip(at, answered, strict=True)]
    batches = [losses[one] + losses[two] for one in losses for two in losses if one < two]
    assert any(sum(b) / len(b) == pytest.approx(report.first_loss, abs=1e-5) for b in batches)


def test_training_moves_and_the_folder_says_how(trained, tiny_base):
    out, _, report = trained
    assert report.last_loss < report.first_loss
    assert report.steps == len(report.log) == 6 and report.rows == 6
    assert "the chosen rewrites are becoming likely" in report.reading
    assert {"loss", "token_accuracy", "grad_norm"} <= set(report.log[0])
    card = json.loads((out / "rewriter.json").read_text())
    assert (card["method"], card["base_kind"]) == ("sft", "folder")


def test_resumed_training_equals_uninterrupted(trained, tiny_base, pairs):
    out, config, _ = trained
    again = out.parent / "resumed"
    (again / "checkpoints").mkdir(parents=True)
    shutil.copytree(out / "checkpoints" / "checkpoint-4", again / "checkpoints" / "checkpoint-4")
    shutil.copy(out / "checkpoints" / "inputs.json", again / "checkpoints")
    report = train_sft(pairs, str(tiny_base), again, config, resume=True)
    assert report.resumed_from == 4 and report.steps == 6
    assert same(weights(out), weights(again))


def test_preference_training_goes_on_from_the_adapter(trained, tmp_path, tiny_base, pairs):
    start, _, _ = trained
    config = DpoConfig(**QUICK, epochs=2, save_every=2)
    report = train_dpo(pairs, str(tiny_base), tmp_path / "dpo", config, start=start)
    assert report.reference == "start"
    assert report.first_loss == pytest.approx(math.log(2), abs=1e-5)
    assert report.log[0]["margin"] == pytest.approx(0.0, abs=1e-5)
    assert not same(weights(start), weights(tmp_path / "dpo"))
    assert not (tmp_path / "dpo" / "ref").exists()
    card = json.loads((tmp_path / "dpo" / "rewriter.json").read_text())
    assert card["training"]["start"]["inputs"]["method"] == "sft"
    # Killed after the second of three checkpoints, it ends where the uninterrupted run does.
    again = tmp_path / "again"
    (again / "checkpoints").mkdir(parents=True)
    shutil.copytree(tmp_path / "dpo" / "checkpoints" / "checkpoint-4", again / "checkpoints" / "checkpoint-4")
    shutil.copy(tmp_path / "dpo" / "checkpoints" / "inputs.json", again / "checkpoints")
    assert train_dpo(pairs, str(tiny_base), again, config, start=start, resume=True).resumed_from == 4
    assert same(weights(tmp_path / "dpo"), weights(again))


def test_the_base_as_reference_differs_at_step_0(trained, tmp_path, tiny_base, pairs, capsys):
    start, _, _ = trained
    config = DpoConfig(**QUICK, reference="base", max_steps=1, save_every=0)
    report = train_dpo(pairs, str(tiny_base), tmp_path / "dpo", config, start=start)
    assert report.reference == "base"
    assert abs(report.first_loss - math.log(2)) > 1e-3
    assert abs(report.log[0]["margin"]) > 1e-3
    assert "away from it in loss" in capsys.readouterr().err


def test_an_adapter_that_changes_nothing_is_no_start_against_the_base(tmp_path, tiny_base, pairs):
    train_sft(pairs, str(tiny_base), tmp_path / "idle", SftConfig(**{**QUICK, "lr": 1e-30}, max_steps=1, save_every=0))
    config = DpoConfig(**QUICK, reference="base", max_steps=1, save_every=0)
    with pytest.raises(UtilituneError, match="changes nothing"):
        train_dpo(pairs, str(tiny_base), tmp_path / "dpo", config, start=tmp_path / "idle")


def test_what_a_start_had_seen_counts_as_seen(trained, tmp_path, tiny_base, pairs):
    start, _, _ = trained
    config = DpoConfig(**QUICK, max_steps=1, save_every=0)
    train_dpo(pairs[:2], str(tiny_base), tmp_path / "dpo", config, start=start)
    seen = json.loads((tmp_path / "dpo" / "rewriter.json").read_text())["training"]["query_ids"]
    assert sorted(seen) == sorted(p.query_id for p in pairs)


def test_a_start_of_another_base_is_refused(trained, tmp_path, tiny_base, pairs):
    start, _, _ = trained
    other = tmp_path / "other"
    shutil.copytree(tiny_base, other)
    with pytest.raises(ConfigError, match=r"is an adapter of .*tiny-llama"):
        train_dpo(pairs, str(other), tmp_path / "dpo", DpoConfig(**QUICK), start=start)
    with pytest.raises(ConfigError, match=r"holds no adapter_model\.safetensors"):
        train_dpo(pairs, str(tiny_base), tmp_path / "dpo", DpoConfig(**QUICK), start=tmp_path)


def test_a_loss_that_is_not_finite_names_the_questions(tmp_path, tiny_base, pairs):
    settings = {**QUICK, "lr": 1e30, "max_steps": 3, "scheduler": "constant_with_warmup"}
    with pytest.raises(DataError, match=r"at step [23], in the batch of the questions \w+, \w+;"):
        train_sft(pairs, str(tiny_base), tmp_path / "out", SftConfig(**settings))


def test_no_pairs_stop_before_any_model(tmp_path):
    with pytest.raises(NoPairsError):
        train_sft([], "no/such-model", tmp_path / "out")


def test_a_base_can_be_pinned_and_unknown_keys_are_named(tmp_path, tiny_base, pairs):
    config = SftConfig(**QUICK, max_steps=1, save_every=0)
    train_sft(pairs, {"model": str(tiny_base)}, tmp_path / "out", config)
    with pytest.raises(ConfigError, match="unknown keys dtype"):
        train_sft(pairs, {"model": str(tiny_base), "dtype": "float32"}, tmp_path / "out", config)


def test_trackers_that_are_not_here_are_named(tmp_path, tiny_base, pairs):
    with pytest.raises(ConfigError, match="report_to: nowhere is not installed or unknown"):
        train_sft(pairs, str(tiny_base), tmp_path / "out", SftConfig(**QUICK, report_to=("nowhere",)))
    train_sft(pairs, str(tiny_base), tmp_path / "out", SftConfig(**QUICK, max_steps=1, report_to=("tensorboard",)))
    assert list((tmp_path / "out").rglob("events.out.tfevents*"))
