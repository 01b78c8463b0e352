"""Decoders without a pad token: one score whatever batch and padding, pad saved everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sentence_transformers import CrossEncoder
from torch import nn

from utilitune.rerank import UtilityReranker

PAIRS = [
    ("who built the mill", "good"),
    ("where is the river", "the river of the old town is blue"),
    ("king", "a new red bridge in the town of the king of the river"),
]


@pytest.mark.parametrize("side", ["left", "right"])
def test_scores_do_not_depend_on_batch_size_or_the_base_padding_side(tiny_gpt2, tmp_path, side):
    import shutil

    base = tmp_path / "base"
    shutil.copytree(tiny_gpt2, base)
    settings = json.loads((base / "tokenizer_config.json").read_text())
    (base / "tokenizer_config.json").write_text(json.dumps({**settings, "padding_side": side}))
    reference = UtilityReranker.untrained(tiny_gpt2, seed=3, device="cpu", batch_size=1).score_pairs(PAIRS)
    assert len(set(reference)) == 3
    for size in (1, 3):
        model = UtilityReranker.untrained(str(base), seed=3, device="cpu", batch_size=size)
        assert model.score_pairs(PAIRS) == pytest.approx(reference, abs=1e-5)


def test_pad_is_a_token_of_its_own_and_saved(tiny_gpt2, tmp_path):
    reranker = UtilityReranker.untrained(tiny_gpt2, seed=3, device="cpu")
    tokenizer, config = reranker.model.tokenizer, reranker.model.transformers_model.config
    assert tokenizer.pad_token_id == config.pad_token_id != tokenizer.eos_token_id
    reranker.save(tmp_path / "out")
    saved = json.loads((Path(tmp_path) / "out" / "config.json").read_text())
    assert saved["pad_token_id"] == tokenizer.pad_token_id
    plain = CrossEncoder(str(tmp_path / "out"), local_files_only=True, device="cpu")
    assert plain.tokenizer.pad_token_id == tokenizer.pad_token_id
    assert plain.predict(PAIRS, batch_size=3).tolist() == pytest.approx(reranker.score_pairs(PAIRS), abs=1e-5)


def test_an_end_token_inside_a_text_is_not_taken_for_padding(tiny_gpt2):
    reranker = UtilityReranker.untrained(tiny_gpt2, seed=3, device="cpu")
    plain, ended, longer = reranker.score("king", ["good mill", "good mill <|end|>", "good mill <|end|> <|end|>"])
    assert len({round(plain, 6), round(ended, 6), round(longer, 6)}) == 3


def test_decoder_gets_a_head_not_a_yes_no_scorer(tiny_gpt2):
    model = UtilityReranker.untrained(tiny_gpt2, seed=3, device="cpu").model
    assert type(model.transformers_model).__name__ == "GPT2ForSequenceClassification"
    assert isinstance(model.activation_fn, nn.Identity)


def test_same_seed_same_head(tiny_bert):
    scores = [
        UtilityReranker.untrained(tiny_bert, seed=seed, device="cpu").score("king", ["mill"]) for seed in (1, 1, 2)
    ]
    assert scores[0] == scores[1] != scores[2]
