import json
import math
import shutil

import pytest

from utilitune.errors import ConfigError, DataError, ThresholdError
from utilitune.records import PreferencePair
from utilitune.rewrite import DpoConfig, NoPairsError, train_dpo
from utilitune.rewrite.checkpoints import newest_complete

QUICK = {"batch_size": 2, "lora_r": 4, "lora_alpha": 8, "max_length": 64, "lr": 1e-2, "warmup": 0.0}


def pair(number, chosen="what did mira found", rejected="what did she found", **fields):
    prompt = ({"role": "user", "content": f"last question {number} what did she found"},)
    return PreferencePair(
        query_id=f"q{number}",
        prompt=fields.get("prompt", prompt),
        chosen=({"role": "assistant", "content": chosen},),
        rejected=({"role": "assistant", "content": rejected},),
        chosen_utility=1.0,
        rejected_utility=0.0,
    )


@pytest.fixture(scope="module")
def pairs():
    words = ["one", "two", "three", "four", "five", "six"]
    return [pair(word, f"{word} did mira found the mill", f"{word} it") for word in words]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_base, pairs):
    """An uninterrupted run of 6 steps with dropout, checkpoints every 2."""
    out = tmp_path_factory.mktemp("dpo") / "rewriter"
    config = DpoConfig(**QUICK, epochs=2, save_every=2, lora_dropout=0.1)
    return out, config, train_dpo(pairs, str(tiny_base), out, config)


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "adapter_model.safetensors")


def test_the_first_loss_is_ln_2_and_training_moves(trained):
    _, _, report = trained
    assert report.first_loss == pytest.approx(math.log(2), abs=1e-4)
    assert report.log[0]["margin"] == pytest.approx(0.0, abs=1e-4)
    assert report.steps == len(report.log) == 6
    assert report.last_loss < report.first_loss
    assert report.log[-1]["margin"] > 0
    assert report.reference == "base"


def test_the_folder_says_what_it_is(trained, tiny_base, pairs):
    out, _, report = trained
    written = json.loads((out / "training.json").read_text())
    assert written["steps"] == 6 and written["reading"] == report.reading
    card = json.loads((out / "rewriter.json").read_text())
    assert card["base_kind"] == "folder"
    assert card["prompt"] == "rewrite" and card["prompt_hash"]
    assert card["training"]["query_ids"] == [pair.query_id for pair in pairs]
    adapter = json.loads((out / "adapter_config.json").read_text())
    for text in (card["base"], adapter["base_model_name_or_path"]):
        assert not text.startswith("/") and (out / text).resolve() == tiny_base.resolve()
    everything = "".join(path.read_text() for path in out.glob("*.json"))
    assert str(tiny_base) not in everything
    assert not list(out.glob("*.bin")) and not list(out.glob("*.pkl"))


def test_resumed_training_equals_uninterrupted(trained, tmp_path, tiny_base, pairs):
    import torch

    out, config, _ = trained
    again = out.parent / "resumed"
    (again / "checkpoints").mkdir(parents=True)
    shutil.copytree(out / "checkpoints" / "checkpoint-4", again / "checkpoints" / "checkpoint-4")
    shutil.copy(out / "checkpoints" / "inputs.json", again / "checkpoints")
    # A run killed while saving leaves a newer, half-written checkpoint.
    half = again / "checkpoints" / "checkpoint-5"
    half.mkdir()
    shutil.copy(out / "adapter_model.safetensors", half)
    report = train_dpo(pairs, str(tiny_base), again, config, resume=True)
    assert report.resumed_from == 4
    assert report.steps == 6
    assert [row["step"] for row in report.log] == [1, 2, 3, 4, 5, 6]
    whole, parts = weights(out), weights(again)
    assert whole.keys() == parts.keys()
    for name in whole:
        assert torch.equal(whole[name], parts[name]), name


def test_the_same_run_twice_is_the_same(trained, tmp_path, tiny_base, pairs):
    import torch

    out, config, _ = trained
    train_dpo(pairs, str(tiny_base), tmp_path / "again", config.model_copy(update={"save_every": 0}))
    one, two = weights(out), weights(tmp_path / "again")
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(weight.abs().max() > 0 for name, weight in one.items() if "lora_B" in name)


def test_resume_refuses_another_run(trained, tmp_path, tiny_base, pairs):
    out, config, _ = trained
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    with pytest.raises(ConfigError, match="config changed"):
        train_dpo(pairs, str(tiny_base), copy, config.model_copy(update={"lr": 1e-3}), resume=True)


def test_all_linear_layers_and_nothing_else(trained):
    out, _, _ = trained
    names = {name.split(".")[-3] for name in weights(out)}
    assert names == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def test_no_pairs_stop_before_any_model(tmp_path):
    with pytest.raises(NoPairsError, match="nothing to train on"):
        train_dpo([], "no/such-model", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pairs_without_signal_stop_before_the_weights(tmp_path, tiny_base):
    bare = tmp_path / "no-weights"
    shutil.copytree(tiny_base, bare)
    (bare / "model.safetensors").unlink()
    same = [pair("one", "unheard", "unseen"), pair("two", "river", "River ")]
    with pytest.raises(NoPairsError) as caught:
        train_dpo(same, str(bare), tmp_path / "out")
    assert caught.value.pair_set.drops == {"identical-tokens": 1, "identical": 1}


def test_long_prompts_are_counted_and_never_cut_silently(tmp_path, tiny_base):
    long = ({"role": "user", "content": " ".join(["river"] * 200)},)
    mixed = [pair(str(n), prompt=long) if n % 2 else pair(str(n)) for n in range(10)]
    config = DpoConfig(**{**QUICK, "max_length": 128}, max_steps=1)
    with pytest.raises(ThresholdError, match=r"5 of 10 pairs left out \(too-long 5; max_length 128\)"):
        train_dpo(mixed, str(tiny_base), tmp_path / "out", config.model_copy(update={"max_dropped": 0.4}))
    report = train_dpo(mixed, str(tiny_base), tmp_path / "out", config)
    assert report.rows == 5 and report.drops == {"too-long": 5}


def test_a_loss_that_is_not_finite_names_the_questions(tmp_path, tiny_base, pairs):
    with pytest.raises(DataError, match=r"at step [23], in the batch of the questions q\w+, q\w+;"):
        train_dpo(
            pairs,
            str(tiny_base),
            tmp_path / "out",
            DpoConfig(**{**QUICK, "lr": 1e30}, max_steps=3, scheduler="constant_with_warmup"),
        )


def test_a_base_without_chat_template_is_refused(tmp_path, tiny_base, pairs):
    bare = tmp_path / "plain"
    shutil.copytree(tiny_base, bare)
    (bare / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match="no chat template"):
        train_dpo(pairs, str(bare), tmp_path / "out")


def test_newest_complete_checkpoint(tmp_path):
    assert newest_complete(tmp_path / "none") is None
    parts = ["adapter_model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"]
    for step in (9, 10, 100):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        for name in parts:
            (folder / name).write_text("x")
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    assert newest_complete(tmp_path).name == "checkpoint-100"
    (tmp_path / "checkpoint-100" / "trainer_state.json").write_text('{"global_st')
    assert newest_complete(tmp_path).name == "checkpoint-10"
    (tmp_path / "checkpoint-10" / "optimizer.pt").unlink()
    assert newest_complete(tmp_path).name == "checkpoint-9"
