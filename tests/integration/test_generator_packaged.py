"""The packaged models: they load, they answer, they equal transformers' own generation."""

import time

import pytest
import torch

from utilitune.generator import PACKAGED, load_generator, load_prompt, resolve_model
from utilitune.records.passage import Passage
from utilitune.records.query import Turn

pytestmark = pytest.mark.integration

WEIR = Passage(
    "1",
    "Brannoc Weir is a stone bridge over the river Ull, finished in 1804 by the engineer Petra Sund. It carries the "
    "road from Mallow to Hest and is 212 metres long.",
    "Brannoc Weir",
)
MAYOR = Passage("2", "The mayor of Velm, a town of 48,300 people at the mouth of the Ull, is Ada Fenn.", "Velm")


@pytest.fixture(scope="module", params=["packaged:smollm2-135m-instruct", "packaged:gemma3-270m"])
def generator(request):
    return load_generator(request.param, dtype="float32")


def prompts():
    prompt = load_prompt("answer")
    return [
        prompt.render(question="Who finished Brannoc Weir?", passages=[WEIR]),
        prompt.render(question="Who is the mayor of Velm?", passages=[WEIR, MAYOR]),
        prompt.render(question="Who is the mayor of Velm?", passages=[MAYOR]),
        prompt.render(question="What is the capital of France?"),
    ]


TOWN = Passage(
    "3",
    "The town of Velm lies at the mouth of the Ull. Its 48,300 inhabitants live mostly from shipbuilding; the yard of "
    "Korr & Sons employs 2,100 people. The mayor is Ada Fenn.",
    "Velm",
)
ASKED = [
    (WEIR, "Who finished Brannoc Weir?", "Petra Sund"),
    (WEIR, "How long is Brannoc Weir?", "212"),
    (WEIR, "When was Brannoc Weir finished?", "1804"),
    (TOWN, "How many people live in Velm?", "48,300"),
    (TOWN, "Who is the mayor of Velm?", "Ada Fenn"),
    (TOWN, "Which river does Velm lie at?", "Ull"),
]


def test_answers_are_sane(generator):
    """A model this small misses some; the passages must carry it to half, and nothing may be known without them."""
    prompt = load_prompt("answer")

    def right(grounded):
        asked = [
            prompt.render(question=question, passages=[passage] if grounded else []) for passage, question, _ in ASKED
        ]
        said = [row[0].text for row in generator.generate(asked, stop=prompt.stop, max_new_tokens=16)]
        return sum(answer in text for text, (_, _, answer) in zip(said, ASKED, strict=True))

    assert right(grounded=True) >= 3
    assert right(grounded=False) <= 1
    [france] = generator.generate([prompt.render(question="What is the capital of France?")], stop=prompt.stop)[0]
    assert "Paris" in france.text
    assert all(entropy >= 0 for entropy in france.entropies)


def test_greedy_equals_transformers(generator):
    for prompt, [answer] in zip(prompts(), generator.generate(prompts(), max_new_tokens=12), strict=True):
        ids = torch.tensor([generator._encode(prompt).ids])
        whole = generator.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)[
            0, ids.shape[1] :
        ].tolist()
        own = whole[: -1 if whole[-1] in generator._engine._decoder._ends else None]
        assert list(answer.token_ids) == own


def test_knowing_the_passage_helps(generator):
    prompt = load_prompt("answer")
    question = "Who is the mayor of Velm?"
    lead = "" if generator.identity.template != "plain" else " "
    grounded, bare, other = generator.score(
        [prompt.render(question=question, passages=given) for given in ([MAYOR], [], [WEIR])], [lead + "Ada Fenn"] * 3
    )
    assert sum(grounded.logprobs) > max(sum(bare.logprobs), sum(other.logprobs)) + 2


def test_weights_are_tied_and_special_ids_right(generator):
    model, tokenizer = generator.model, generator.tokenizer
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert tokenizer.pad_token_id is not None
    if generator.identity.template == "plain":
        assert (tokenizer.bos_token, tokenizer.eos_token) == ("<bos>", "<eos>")
        assert generator._encode(prompts()[0]).ids.count(tokenizer.bos_token_id) == 1
        assert generator.identity.max_length == 32768
    else:
        assert (tokenizer.eos_token, generator.identity.system_role) == ("<|im_end|>", "native")
        text = generator.render(prompts()[3])
        assert text.endswith("<|im_end|>\n<|im_start|>assistant\n") and text.count("<|im_start|>system") == 1
        assert generator.identity.max_length == 8192


def test_rewrites_resolve_a_pronoun():
    generator = load_generator("packaged:smollm2-135m-instruct", dtype="float32")
    prompt = load_prompt("rewrite")
    history = [
        Turn("user", "Who wrote The Glass Orchard?"),
        Turn("assistant", "The opera The Glass Orchard was written by Lio Merrin."),
    ]
    asked = prompt.render(question="When was she born?", history=history)
    [said] = generator.generate([asked], max_new_tokens=prompt.max_new_tokens, stop=prompt.stop)[0]
    assert "Merrin" in said.text and "born" in said.text and "\n" not in said.text


@pytest.mark.parametrize("name", list(PACKAGED))
def test_second_resolve_is_immediate(name):
    folder = resolve_model(f"packaged:{name}")
    start = time.perf_counter()
    assert resolve_model(f"packaged:{name}") == folder
    assert time.perf_counter() - start < 0.5
    assert (folder / "ORIGIN.json").is_file()
