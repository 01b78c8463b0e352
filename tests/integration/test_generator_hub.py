"""Models that come from the Hub, read from its cache: identity and weights are of one commit."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

SCRIPT = """
import json, sys
from pathlib import Path
import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from utilitune.generator import load_generator

CACHE = Path(sys.argv[1])

def llama(seed):
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=300, initializer_range=0.5, eos_token_id=0, **sizes))

def commit(name, digit, *parts):
    home = CACHE / f"models--{name.replace('/', '--')}"
    for part in parts:
        part.save_pretrained(home / "snapshots" / (digit * 40))
    (home / "refs").mkdir(exist_ok=True)
    (home / "refs" / "main").write_text(digit * 40)

def lora(seed):
    base = llama(1)
    torch.manual_seed(seed)
    return get_peft_model(base, LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))

letters = {"</s>": 0, **{c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()), 1)}}
inner = Tokenizer(models.BPE(vocab=letters, merges=[]))
inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>", model_max_length=64)

def told(**more):
    generator = load_generator({"model": "some/model", "dtype": "float32", **more})
    return generator, lambda: generator.score(["ab"], ["cd"])[0].logprobs

commit("some/model", "a", llama(1), tokenizer)
early, numbers = told()
commit("some/model", "b", llama(2), tokenizer)
later, other = told()
commit("some/lora", "c", lora(3))
first, under_first = told(adapter="some/lora")
under_first = under_first()
commit("some/lora", "d", lora(4))
second, under_second = told(adapter="some/lora")
print(json.dumps({
    "revisions": [early.identity.revision, later.identity.revision],
    "equal": [numbers() == told(revision="a" * 40)[1](), numbers() == other(), under_first == under_second()],
    "adapters": len({first.identity.adapter, second.identity.adapter}),
}))
"""


def test_weights_are_of_the_commit_that_the_identity_names(tmp_path):
    """The branch moves between loading and the first number; an adapter's new commit is another identity."""
    environment = {
        **os.environ,
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "HF_HUB_OFFLINE": "1",
        "UTILITUNE_CACHE": str(tmp_path / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "hub"], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "revisions": ["a" * 40, "b" * 40],
        "equal": [True, False, False],
        "adapters": 2,
    }
