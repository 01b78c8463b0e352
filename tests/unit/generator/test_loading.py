"""From a spec to a generator: folders, adapters, identity; never the network."""

import json
import shutil
import socket

import pytest
import torch

from utilitune.errors import ConfigError
from utilitune.generator import load_generator
from utilitune.generator.dtype import choose_dtype
from utilitune.generator.weights_hash import model_hash


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def folder(tmp_path, tiny, tokenizers_of):
    path = tmp_path / "model"
    tiny("llama").save_pretrained(path)
    tokenizers_of().save_pretrained(path)
    return path


@pytest.fixture
def adapter(tmp_path, folder, tiny):
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    model = get_peft_model(tiny("llama"), LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
    model.peft_config["default"].base_model_name_or_path = str(folder)
    path = tmp_path / "adapter"
    model.save_pretrained(path)
    return path


def score(generator):
    return generator.score(["the mayor of"], [" Velm is Ada"])[0].logprobs


def test_local_folder_offline(folder, capsys):
    generator = load_generator(str(folder))
    assert generator.identity.dtype in ("float32", "bfloat16")
    assert "measured" in capsys.readouterr().err
    assert generator.identity.model == str(folder)
    assert generator.identity.revision == model_hash(folder)
    assert all(value < 0 for value in score(generator))


def test_adapter_folder_equals_base_plus_adapter(folder, adapter, tiny):
    from peft import PeftModel

    base = load_generator(str(folder), dtype="float32")
    alone = load_generator(str(adapter), dtype="float32")
    both = load_generator({"model": str(folder), "adapter": str(adapter), "dtype": "float32"})
    third = load_generator(str(folder), adapter=adapter, dtype="float32")
    assert score(alone) == score(both) == score(third) != score(base)
    assert alone.identity.adapter == both.identity.adapter
    assert base.identity.key() != both.identity.key()
    # Merging changes nothing but the last digits.
    plain = PeftModel.from_pretrained(tiny("llama"), str(adapter)).eval()
    prompt, text = (base.tokenizer(part)["input_ids"] for part in ("the mayor of", " Velm is Ada"))
    with torch.no_grad():
        rows = plain(torch.tensor([prompt + text])).logits[0].log_softmax(-1)[len(prompt) - 1 : -1]
    assert score(both) == pytest.approx(rows[range(len(text)), text].tolist(), abs=1e-4)


def test_moved_adapter_says_what_is_missing(adapter, folder):
    shutil.rmtree(folder)
    with pytest.raises(ConfigError, match="does not exist"):
        load_generator(str(adapter))


def test_weights_trained_in_place_change_the_identity(folder, tiny):
    before = load_generator(str(folder), dtype="float32").identity
    assert load_generator(str(folder), dtype="float32").identity == before
    tiny("llama", seed=5).save_pretrained(folder)
    assert load_generator(str(folder), dtype="float32").identity.key() != before.key()


def test_template_is_decided_before_the_weights(folder, templates, tmp_path):
    next(folder.glob("*.safetensors")).write_bytes(b"not weights")
    with pytest.raises(ConfigError, match="no chat template and template='require'"):
        load_generator(str(folder), template="require")


def test_template_file_overrides(folder, templates, tmp_path):
    path = tmp_path / "t.jinja"
    path.write_text(templates["no-system"])
    plain, chat = load_generator(str(folder)), load_generator(str(folder), template=path)
    assert (plain.identity.template, chat.identity.system_role) == ("plain", "merged")


def test_bad_specs_say_what_to_do(folder, tmp_path):
    with pytest.raises(ConfigError, match=r"unknown keys \['modl'\]"):
        load_generator({"modl": str(folder)})
    with pytest.raises(ConfigError, match="no key 'model'"):
        load_generator({"dtype": "float32"})
    with pytest.raises(ConfigError, match=r"known: \['transformers'"):
        load_generator({"model": str(folder), "backend": "abacus"})
    with pytest.raises(ConfigError, match="does not exist"):
        load_generator(str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="float32"):
        load_generator(str(folder), dtype="float99")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError, match="cannot load"):
        load_generator(str(empty))


def test_pickled_weights_are_refused(folder):
    next(folder.glob("*.safetensors")).unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="safetensors"):
        load_generator(str(folder), dtype="float32")


def test_dtype_is_measured_once_and_kept(tmp_path):
    first = choose_dtype("auto", "cpu", 33, 65)
    assert first[0] in ("float32", "bfloat16") and "measured" in first[1]
    kept = json.loads((tmp_path / "cache" / "dtype.json").read_text())
    assert list(first) in kept.values()
    assert choose_dtype("auto", "cpu", 33, 65) == first
    assert choose_dtype("float32", "cpu", 33, 65) == ("float32", "as asked")


def test_hash_ignores_what_cannot_change_a_number(folder):
    before = model_hash(folder)
    (folder / "README.md").write_text("words")
    assert model_hash(folder) == before
    (folder / "config.json").write_text((folder / "config.json").read_text().replace("512", "256"))
    assert model_hash(folder) != before


def unreadable(folder):
    """Put bytes that are no weights in the weights' place; size and time, by which hashes are kept, stay."""
    import os

    path = next(folder.glob("*.safetensors"))
    stat = path.stat()
    path.write_bytes(b"\0" * stat.st_size)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_weights_are_not_read_before_a_number_is_needed(folder, adapter):
    before = [load_generator(str(each), dtype="float32") for each in (folder, adapter)]
    kept = [score(generator) for generator in before]
    assert kept[0] != kept[1]
    unreadable(folder)
    for generator, known in zip(before, (folder, adapter), strict=True):
        again = load_generator(str(known), dtype="float32")
        assert again.identity == generator.identity
        assert again.render("the mayor") == "the mayor" and again.counts["out_of_memory"] == 0
        with pytest.raises(ConfigError, match="cannot load"):
            score(again)


def test_weights_that_change_after_they_were_hashed_are_refused(folder, tiny):
    generator = load_generator(str(folder), dtype="float32")
    tiny("llama", seed=5).save_pretrained(folder)
    with pytest.raises(ConfigError, match="changed after"):
        score(generator)


def test_an_adapter_that_changes_after_it_was_hashed_is_refused(adapter):
    from safetensors.torch import load_file, save_file

    generator = load_generator(str(adapter), dtype="float32")
    path = adapter / "adapter_model.safetensors"
    save_file({name: 2 * weight for name, weight in load_file(path).items()}, path, {"format": "pt"})
    with pytest.raises(ConfigError, match="changed after"):
        score(generator)
    assert load_generator(str(adapter), dtype="float32").identity.adapter != generator.identity.adapter
