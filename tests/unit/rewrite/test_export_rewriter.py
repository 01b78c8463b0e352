"""Merge and export: the same model, from another place, without a network."""

import json
import shutil

import pytest
import yaml

from utilitune.errors import ConfigError, DataError, UtilituneError
from utilitune.records import PreferencePair, Query, Turn
from utilitune.rewrite import Rewriter, SftConfig, export_rewriter, merge_rewriter, train_sft

QUESTION = Query("c_2", "when did she die", (Turn("user", "who is mira"), Turn("assistant", "mira tolve")))


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_base):
    out = tmp_path_factory.mktemp("trained") / "rewriter"
    pairs = [
        PreferencePair(
            f"q{n}",
            ({"role": "user", "content": f"last question {n}"},),
            ({"role": "assistant", "content": "what did mira found"},),
            ({"role": "assistant", "content": "it"},),
            1.0,
            0.0,
        )
        for n in ("one", "two")
    ]
    config = SftConfig(max_steps=4, lr=5e-2, lora_r=4, batch_size=2, save_every=2, max_new_tokens=7)
    train_sft(pairs, str(tiny_base), out, config)
    return out


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Any attempt to reach a host fails the test."""
    import socket

    def refuse(*address, **options):
        raise AssertionError(f"the network was asked for {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_the_merged_model_says_the_same(trained, tmp_path, tiny_base):
    off = merge_rewriter(trained, tmp_path / "merged")
    assert off <= 1e-5
    (tmp_path / "merged").rename(tmp_path / "elsewhere")
    merged, adapter = Rewriter.load(tmp_path / "elsewhere"), Rewriter.load(trained)
    assert merged.max_new_tokens == adapter.max_new_tokens == 7
    assert merged.generator.identity.adapter == ""
    one = merged.generator.score(["when did she die"], ["mira tolve"])[0].logprobs
    two = adapter.generator.score(["when did she die"], ["mira tolve"])[0].logprobs
    base = Rewriter.load(str(tiny_base)).generator.score(["when did she die"], ["mira tolve"])[0].logprobs
    assert one == pytest.approx(two, abs=1e-5)
    assert one != pytest.approx(base, abs=1e-3)
    assert merged.rewrite_batch([QUESTION])[0].text == adapter.rewrite_batch([QUESTION])[0].text


def test_a_merge_that_changes_the_model_writes_nothing(trained, tmp_path, monkeypatch):
    import utilitune.rewrite.merge as module

    monkeypatch.setattr(module, "TOLERANCE", -1.0)
    with pytest.raises(UtilituneError, match="nothing was written"):
        merge_rewriter(trained, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_the_export_says_what_it_is_and_loads_elsewhere(trained, tmp_path, tiny_base):
    out = export_rewriter(trained, tmp_path / "hub", recipe="rewriter-tiny", metrics={"qrecc / MRR@10": 0.5432})
    assert {path.name for path in out.iterdir()} == {
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
        "rewriter.json",
        "training.json",
    }
    _, header, body = (out / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(header) == {
        "library_name": "peft",
        "pipeline_tag": "text-generation",
        "tags": ["query-rewriting", "conversational-search", "utilitune", "sft"],
    }
    rows = json.loads((trained / "rewriter.json").read_text())["training"]["inputs"]["rows"]
    assert rows in body and "rewriter-tiny" in body and "| qrecc / MRR@10 | 0.5432 |" in body
    assert str(tiny_base) not in body and '"lr": 0.05' in body
    away = tmp_path / "far" / "away" / "hub"
    shutil.copytree(out, away)
    with pytest.raises(ConfigError, match=r"tiny-llama.*base="):
        Rewriter.load(away)
    moved = Rewriter.load(away, base=str(tiny_base))
    assert moved.rewrite_batch([QUESTION]) == Rewriter.load(trained).rewrite_batch([QUESTION])


def test_a_merged_export_needs_nothing_else(trained, tmp_path):
    export_rewriter(trained, tmp_path / "hub", merge=True).rename(tmp_path / "moved")
    assert Rewriter.load(tmp_path / "moved").rewrite_batch([QUESTION])
    assert 'library_name: "transformers"' in (tmp_path / "moved" / "README.md").read_text()


def test_a_folder_with_files_or_without_a_rewriter_is_refused(trained, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(ConfigError, match="holds files already"):
        export_rewriter(trained, tmp_path / "full")
    with pytest.raises(DataError, match="expected a trained rewriter"):
        export_rewriter(tmp_path / "nothing", tmp_path / "out")
