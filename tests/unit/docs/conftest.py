"""Random models, too small to know anything, that stand in for the packaged ones."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

CHAT = (
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory):
    """``{packaged name: folder}``: a byte-level Llama for the generators, a BERT for the encoder."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    reader, encoder = (tmp_path_factory.mktemp("models") / name for name in ("reader", "encoder"))
    vocabulary = {
        token: number
        for number, token in enumerate(["<pad>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())])
    }
    raw = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, **names)
    tokenizer.chat_template = CHAT
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    ids = {"vocab_size": len(vocabulary), "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = LlamaConfig(**ids, **small, max_position_embeddings=4096, initializer_range=0.3)
    LlamaForCausalLM(config).save_pretrained(reader)
    tokenizer.save_pretrained(reader)
    raw.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    config = BertConfig(vocab_size=len(vocabulary), pad_token_id=0, **small, max_position_embeddings=512)
    BertModel(config).save_pretrained(encoder)
    names |= {"cls_token": "<s>", "sep_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=raw, **names).save_pretrained(encoder)
    return {
        "packaged:smollm2-135m-instruct": str(reader),
        "packaged:gemma3-270m": str(reader),
        "packaged:all-minilm-l6-v2": str(encoder),
    }
