"""Tiny random models, made on the spot: a BERT encoder and a GPT-2 decoder with small word-level tokenizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

WORDS = [
    *("good", "bad", "red", "blue", "town", "king", "river", "bridge", "mill", "who", "built", "where"),
    *("is", "the", "a", "an", "old", "new", "of", "in"),
]


def word_tokenizer(folder: Path, *, encoder: bool) -> None:
    """Write a tokenizer: an encoder's with a pair template and a pad token, a decoder's with neither."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] if encoder else ["[UNK]", "<|end|>"]
    vocabulary = {word: index for index, word in enumerate([*specials, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"unk_token": "[UNK]"}
    if encoder:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
        )
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    else:
        names |= {"eos_token": "<|end|>", "bos_token": "<|end|>"}
    # No model_max_length: it becomes 1e30, as in many published tokenizers.
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)


def write_model(folder: Path, model: type[PreTrainedModel], config: PretrainedConfig, *, encoder: bool) -> Path:
    """Write a random model with its tokenizer."""
    import torch

    torch.manual_seed(0)
    model(config).save_pretrained(folder)
    word_tokenizer(folder, encoder=encoder)
    return folder


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a random 1-layer BERT of 64 positions."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=len(WORDS) + 4,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    return str(write_model(tmp_path_factory.mktemp("tiny-bert"), BertModel, config, encoder=True))


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a random RoBERTa: 34 declared positions, of which 32 can be used."""
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(
        vocab_size=len(WORDS) + 4,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=34,
        pad_token_id=1,
        type_vocab_size=2,
    )
    return str(write_model(tmp_path_factory.mktemp("tiny-roberta"), RobertaModel, config, encoder=True))


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a random GPT-2 language model that has no pad token anywhere."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=len(WORDS) + 2, n_embd=32, n_layer=2, n_head=2, n_positions=64, bos_token_id=1, eos_token_id=1
    )
    return str(write_model(tmp_path_factory.mktemp("tiny-gpt2"), GPT2LMHeadModel, config, encoder=False))


@pytest.fixture(scope="session")
def tiny_encoder(tiny_bert: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the tiny BERT as a sentence-transformers encoder that states prompts, one longer than the other."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    folder = tmp_path_factory.mktemp("tiny-encoder")
    body = Transformer(tiny_bert, max_seq_length=32)
    modules = [body, Pooling(body.get_embedding_dimension(), "mean"), Normalize()]
    model = SentenceTransformer(
        modules=modules, device="cpu", prompts={"query": "who is the ", "document": "a "}, local_files_only=True
    )
    model.save_pretrained(str(folder), create_model_card=False)
    return str(folder)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a random Llama language model that has a chat template, special tokens and no system role."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(WORDS) + 2,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        bos_token_id=1,
        eos_token_id=1,
    )
    folder = write_model(tmp_path_factory.mktemp("tiny-llama"), LlamaForCausalLM, config, encoder=False)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        "<|end|> {{ m.role }} {{ m.content }} {% endfor %}<|end|> "
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return str(folder)
