"""The benchmark of scoring runs, its ways agree, and a stopped run goes on. The times of this size mean nothing."""

import json
from pathlib import Path

import pytest

from utilitune.progress import set_quiet

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
WORDS = ("river", "town", "mayor", "bridge", "opera", "stone", "flows", "past", "Velm", "Karsk", "Ull", "Ada", "Fenn")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    torch = pytest.importorskip("torch")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    root = tmp_path_factory.mktemp("benchmark")
    letters = {"</s>": 0, **{letter: 1 + at for at, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}}
    inner = Tokenizer(models.BPE(vocab=letters, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>", pad_token="</s>")
    tokenizer.model_max_length = 2048
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=257,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(root / "model")
    tokenizer.save_pretrained(root / "model")
    data = root / "data"
    data.mkdir()
    texts = [" ".join(WORDS[(at * step) % len(WORDS)] for step in range(1, 8 + at)) for at in range(1, 9)]
    rows = [{"_id": f"p{at}", "title": "", "text": text} for at, text in enumerate(texts)]
    (data / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = [{"_id": f"q{at}", "text": f"which {WORDS[at]} flows past?", "answers": [WORDS[at + 5]]} for at in range(4)]
    (data / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    (data / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"q{at}\tp{at}\t1\n" for at in range(4)))
    return root


@pytest.fixture
def run(folders, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("UTILITUNE_CACHE", str(folders / "cache"))
    import scoring

    def call(*more):
        command = ["--data", str(folders / "data"), "--quick", "--generator", str(folders / "model")]
        scoring.main([*command, "--out", str(folders / "out.json"), *more])
        return json.loads((folders / "out.json").read_text())["sections"]

    yield call
    set_quiet(False)


def test_sections_run_and_agree_with_their_peers(folders, run):
    sections = run("--only", "1,2,3,4,5,6,8")
    rows = {name: row for section in sections.values() for name, row in section["rows"].items()}
    assert len(rows) == 9
    for name in ("UDCG's u", "GroGU, three gammas", "gold answers"):
        if rows[name]["ratio"] is not None:
            assert rows[name]["largest_difference"] < 1e-3
            assert rows[name]["beyond_tolerance"] == 0
    for name, row in rows.items():
        if name.startswith("tokens"):
            assert 1.0 <= row["without_padding"] <= row["ratio"]
    assert "| UDCG's u |" in (folders / "out.md").read_text()
    again = run("--only", "3")
    assert again["3"] != sections["3"] and {**again, "3": 0} == {**sections, "3": 0}


@pytest.mark.integration
def test_a_stopped_run_goes_on_with_what_lacks(run):
    before = run("--only", "1,2,3,4,5,6")
    after = run()
    assert {key: after[key] for key in before} == before
    assert set(after) == set("12345678")
    assert set(after["7"]["rows"]) == {"peak memory, pairs", "peak memory, vocabulary"}


def test_double_precision_is_near_and_leaves_the_model_alone(folders, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import torch
    from peers import float64_loglikelihoods

    from utilitune import load_generator

    generator = load_generator(str(folders / "model"), dtype="float32")
    texts = [("which river?\nAnswer:", " Ull"), ("Answer:", " the old bridge")]
    scored = generator.score([prompt for prompt, _ in texts], [text for _, text in texts])
    found = float64_loglikelihoods(generator, texts)
    assert found == pytest.approx([sum(each.logprobs) for each in scored], abs=1e-4)
    assert generator.model.dtype == torch.float32


def test_tree_tokens_by_hand(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from forward_count import tree_tokens

    assert tree_tokens([]) == 0
    assert tree_tokens([(1, 2, 3), (1, 2, 4), (1, 2), (5,), (1, 2, 3)]) == 5
