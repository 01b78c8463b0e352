"""Tiny random models of four architectures and small tokenizers, made in memory."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

CHATML = (
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
NO_SYSTEM = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('must alternate') }}{% endif %}"
    "<s>{{ m['role'] }}\n{{ m['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
DROPS_SYSTEM = CHATML.replace("{% for m in messages %}", "{% for m in messages if m['role'] != 'system' %}")
CORPUS = [
    "the mayor of Velm is Ada Fenn and the river Ull runs past the old stone bridge of Brannoc",
    "Question: who wrote the opera? Answer: Lio Merrin wrote The Glass Orchard in Velm",
    "Document: Karsk is a town of twelve thousand people\nQuestion: where is it?\nAnswer: NO-RESPONSE",
]


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UTILITUNE_CACHE", str(tmp_path / "cache"))


def make_tokenizer(template=None, bos=False, limit=None):
    """A byte-level BPE tokenizer; with ``bos`` it puts <s> before everything that it encodes itself."""
    inner = Tokenizer(models.BPE(unk_token=None))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(CORPUS * 3, trainer)
    if bos:
        inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", pad_token="<pad>", clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = template
    if limit is not None:
        tokenizer.model_max_length = limit
    return tokenizer


def make_model(kind, positions=512, seed=0):
    """A random model whose distributions are neither flat nor sharp."""
    torch.manual_seed(seed)
    size = {"vocab_size": 400, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    llama_like = {
        **size,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": positions,
        "initializer_range": 0.3,
    }
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**llama_like)).eval()
    if kind == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**llama_like)).eval()
    if kind == "gpt2":
        config = GPT2Config(**size, n_embd=32, n_layer=3, n_head=4, n_positions=positions, initializer_range=0.3)
        return GPT2LMHeadModel(config).eval()
    # The window is smaller than the prompts of the tests.
    config = Gemma3TextConfig(
        **llama_like,
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        final_logit_softcapping=5.0 if kind == "gemma3-capped" else None,
    )
    return Gemma3ForCausalLM(config).eval()


KINDS = ("llama", "gpt2", "gemma3", "gemma3-capped", "qwen2")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def tiny():
    return make_model


@pytest.fixture
def tokenizers_of():
    return make_tokenizer


@pytest.fixture
def templates():
    return {"chatml": CHATML, "no-system": NO_SYSTEM, "drops-system": DROPS_SYSTEM}


@pytest.fixture
def reference():
    """Log-probabilities and entropies by float64, one prompt at a time, no cache, no padding."""

    def compute(model, prompt_ids, ids):
        double = type(model)(model.config).eval().double()
        double.load_state_dict({key: value.double() for key, value in model.state_dict().items()})
        with torch.no_grad():
            logits = double(torch.tensor([[*prompt_ids, *ids]]), use_cache=False).logits[0].double()
        rows = logits[len(prompt_ids) - 1 : -1].log_softmax(-1)
        chosen = rows[range(len(ids)), list(ids)]
        return chosen.tolist(), (-(rows.exp() * rows).sum(-1)).tolist()

    return compute
