"""UDCG's published passage utility, written anew from its description, against ``abstention``: exact numbers.

The published scorer puts one passage before the question into the model's chat template, runs the model once, takes
the softmax of the last position's logits and reads the probability of the first token of "NO-RESPONSE".
"""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from utilitune.generator import load_generator, load_prompt
from utilitune.scoring import label, label_sets, make_utility

CHAT = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def make_folder(path, template):
    text = [f"Document: {word} on the river. Question: where? Answer: NO-RESPONSE" for word in ("Orlen", "Quill")]
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<|start|>", "<|end|>"]
    inner.train_from_iterator(
        text * 3,
        trainers.BpeTrainer(vocab_size=340, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|end|>", pad_token="<pad>")
    tokenizer.chat_template = template
    tokenizer.model_max_length = 4096
    tokenizer.save_pretrained(path)
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=340,
        hidden_size=24,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.6,
        eos_token_id=2,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("chat"), CHAT)


@pytest.fixture(scope="module")
def plain_folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("plain"), None)


class Published:
    """transformers alone, float64, one prompt a forward pass, full logits."""

    def __init__(self, folder):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def first_token(self, word):
        return self.tokenizer(word, add_special_tokens=False)["input_ids"][0]

    def no_response(self, text, word):
        ids = self.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            return self.model(ids, use_cache=False).logits[0, -1].softmax(-1)[self.first_token(word)].item()

    def rendered(self, prompt):
        messages = [{"role": role, "content": content} for role, content in prompt.messages]
        return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    def chat(self, prompt, word="NO-RESPONSE"):
        return self.no_response(self.rendered(prompt), word)

    def whole(self, text, word):
        """Probability of all tokens of ``word``, and the tokens, none of which spans the seam."""
        start, ids = (self.tokenizer(each, add_special_tokens=False)["input_ids"] for each in (text, word))
        with torch.no_grad():
            rows = self.model(torch.tensor([start + ids]), use_cache=False).logits[0, len(start) - 1 : -1].softmax(-1)
        return tuple(ids), rows[range(len(ids)), ids].prod().item()


def prompt_of(query, passages):
    return load_prompt("answer-abstain").render(question=query.text, passages=passages, history=query.history)


@pytest.fixture(scope="module")
def pairs(world):
    dataset, run = world
    corpus = dataset.passages()
    return [(query, corpus[passage_id]) for query in dataset.queries for passage_id, _ in run[query.id]]


def test_first_token_is_the_published_scorer(chat_folder, world, pairs):
    generator = load_generator(chat_folder, dtype="float32", device="cpu", batch_tokens=2000)
    labels = label(*world, ["abstention,reading=first-token"], generator, k=3)
    published = Published(chat_folder)
    expected = [1 - published.chat(prompt_of(query, [passage])) for query, passage in pairs]
    assert [row.utility for row in labels] == pytest.approx(expected, abs=1e-6)
    assert [row.evidence["abstain"] for row in labels] == pytest.approx([1 - u for u in expected], rel=1e-3)
    assert max(expected) - min(expected) > 1e-3, "the numbers differ, so that equality says something"
    other = [1 - published.chat(prompt_of(query, [passage]), " NO-RESPONSE") for query, passage in pairs]
    assert max(abs(a - b) for a, b in zip(expected, other, strict=True)) > 1e-3, "and another token is another number"


def test_the_document_stands_before_the_question(pairs):
    query, passage = pairs[0]
    last = prompt_of(query, [passage]).messages[-1][1]
    assert last.index(passage.text) < last.index(query.text)


def test_after_a_plain_prompt_the_word_follows_a_space(plain_folder, world, pairs):
    generator = load_generator(plain_folder, dtype="float32", device="cpu")
    labels = label(*world, ["abstention"], generator, k=3)
    published = Published(plain_folder)
    expected = [
        1 - published.no_response(prompt_of(query, [passage]).plain, " NO-RESPONSE") for query, passage in pairs
    ]
    assert [row.utility for row in labels] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_sets_of_passages(chat_folder, world, count):
    dataset, _ = world
    query, passages = dataset.queries[0], tuple(dataset.corpus[:count])
    specs = ["abstention", "abstention,spelling=likelier"]
    rows = label_sets([(query, passages)], specs, load_generator(chat_folder, dtype="float32", device="cpu"))
    published, prompt = Published(chat_folder), prompt_of(query, passages)
    both = [published.chat(prompt, word) for word in ("NO-RESPONSE", " NO-RESPONSE")]
    assert [row.utility for row in rows] == pytest.approx([1 - both[0], 1 - max(both)], abs=1e-6)


@pytest.mark.parametrize("kind", ["chat", "plain"])
def test_whole_words_and_their_mass(kind, chat_folder, plain_folder, world, pairs):
    """B18: every surface form owns its tokens, whatever merges the tokenizer knows; forms are summed once."""
    folder = chat_folder if kind == "chat" else plain_folder
    specs = ["abstention,reading=sequence", "abstention,reading=mass"]
    rows = label(*world, specs, load_generator(folder, dtype="float32", device="cpu"), k=1).rows
    published = Published(folder)
    query, passage = pairs[0]
    prompt = prompt_of(query, [passage])
    text = published.rendered(prompt) if kind == "chat" else prompt.plain
    _, word = published.whole(text, "NO-RESPONSE" if kind == "chat" else " NO-RESPONSE")
    assert rows[0].evidence["abstain"] == pytest.approx(word, rel=1e-3)
    forms = dict(
        published.whole(text, start + form)
        for form in ("NO-RESPONSE", "No-Response", "NO RESPONSE")
        for start in ("", " ")
    )
    assert len(forms) == 6, "six spellings, none the beginning of another"
    assert rows[1].evidence["abstain"] == pytest.approx(sum(forms.values()), rel=1e-3)
    assert [len(numbers) for numbers in rows[1].evidence["forms"].values()] == [
        len(published.tokenizer(form, add_special_tokens=False)["input_ids"]) for form in rows[1].evidence["forms"]
    ]


def test_readings_share_the_prefill(chat_folder, world):
    from tiny_generator import Counted

    counted = Counted(load_generator(chat_folder, dtype="float32", device="cpu"))
    label(*world, ["abstention", "abstention,reading=sequence"], counted, k=1)
    assert len(counted.computed) == len(world[0].queries)
    assert make_utility("abstention").requests(*_item(world)) == make_utility("abstention,reading=sequence").requests(
        *_item(world)
    )


def _item(world):
    dataset, run = world
    query = dataset.queries[0]
    return query, [dataset.passages()[run[query.id][0][0]]]
