"""A random Llama of 2 layers with a word-level tokenizer and a chat template: everything real but the size."""

import pytest

WORDS = (
    "what who when where did does is was the a of in she he it they write found die live river town mill bridge "
    "glass works tolve orlen mira user assistant last question rewrite long short one two three four five six x b"
)
TEMPLATE = (
    "{% for m in messages %}<s> {{ m['role'] }} {{ m['content'] }} </s>{% endfor %}"
    "{% if add_generation_prompt %}<s> assistant {% endif %}"
)


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory):
    """Folder of the tiny model."""
    torch = pytest.importorskip("torch")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("base") / "tiny-llama"
    vocabulary = {
        word: index for index, word in enumerate(["<unk>", "<pad>", "<s>", "</s>", *dict.fromkeys(WORDS.split())])
    }
    raw = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=512,
            pad_token_id=1,
            bos_token_id=2,
            eos_token_id=3,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_base):
    """Its tokenizer."""
    from utilitune.rewrite.tokens import load_tokenizer

    return load_tokenizer(str(tiny_base))
