"""Contrast of two prompts, against float64 logits of each prompt alone."""

import pytest
import torch

from utilitune.generator import ContrastScorer, Prompt, TransformersGenerator
from utilitune.generator.contrast import contrast_stats
from utilitune.generator.entropy import logit_stats
from utilitune.generator.reading import Reading

PROMPTS = ["the mayor of Velm is Ada Fenn\nwho is the mayor", "the river Ull runs past\nwhat runs", "who", "who"]
OTHERS = ["who is the mayor", "what runs", "the old stone bridge of Brannoc and the town", "who"]
TEXTS = [" Ada Fenn", " the old stone bridge", "x", " Ada"]


@pytest.fixture
def build(tiny, tokenizers_of):
    def make(kind="llama", template=None, **more):
        return TransformersGenerator(tiny(kind), tokenizers_of(template), **more)

    return make


def test_two_tokens_by_hand():
    # z = (ln 4, 0), z' = (ln 2, 0), alpha 1: odds 4^2 / 2 = 8.
    ours, theirs = torch.tensor([[4.0, 1.0]]).log(), torch.tensor([[2.0, 1.0]]).log()
    weight, targets = torch.tensor([1.0]), torch.tensor([0])
    logprobs, entropies = contrast_stats(lambda logits: logits, (ours, theirs), targets, weight, 2)
    chances = torch.tensor([8 / 9, 1 / 9])
    assert logprobs.item() == pytest.approx(chances[0].log().item(), abs=1e-6)
    assert entropies.item() == pytest.approx(-(chances * chances.log()).sum().item(), abs=1e-6)


def test_slices_do_not_change_a_number(monkeypatch):
    from utilitune.generator import contrast

    torch.manual_seed(0)
    ours, theirs, targets = torch.randn(7, 50), torch.randn(7, 50), torch.randint(0, 50, (7,))
    alpha = torch.full((7,), 0.5)
    whole = contrast_stats(lambda logits: logits, (ours, theirs), targets, alpha, 50)
    monkeypatch.setattr(contrast, "MAX_LOGITS", 2 * 50 * 2)
    sliced = contrast_stats(lambda logits: logits, (ours, theirs), targets, alpha, 50)
    assert all(torch.equal(a, b) for a, b in zip(whole, sliced, strict=True))
    plain = logit_stats(1.5 * ours - 0.5 * theirs, targets)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(whole, plain, strict=True))


@pytest.mark.parametrize("alpha", [0.5, 2.0])
@pytest.mark.parametrize("batch_tokens", [8192, 40])
def test_equals_float64_reference(kind, alpha, batch_tokens, build):
    generator = build(kind, batch_tokens=batch_tokens)
    assert isinstance(generator, ContrastScorer)
    model = generator.model
    double = type(model)(model.config).eval().double()
    double.load_state_dict({key: value.double() for key, value in model.state_dict().items()})

    def rows(prompt, ids):
        start = generator.tokenizer(prompt)["input_ids"]
        with torch.no_grad():
            logits = double(torch.tensor([[*start, *ids]]), use_cache=False).logits[0].double()
        return logits[len(start) - 1 : -1]

    got = generator.contrast(PROMPTS, OTHERS, TEXTS, alpha=alpha)
    for prompt, other, text, result in zip(PROMPTS, OTHERS, TEXTS, got, strict=True):
        ids = generator.tokenizer(text)["input_ids"]
        expected = ((1 + alpha) * rows(prompt, ids) - alpha * rows(other, ids)).log_softmax(-1)
        assert result.token_ids == tuple(ids) and result.text == text
        assert result.logprobs == pytest.approx(expected[range(len(ids)), ids].tolist(), abs=2e-4)
        assert result.entropies == pytest.approx((-(expected.exp() * expected).sum(-1)).tolist(), abs=1e-4)


def test_without_weight_or_of_equal_prompts_it_is_the_plain_score(build):
    generator = build()
    plain = generator.score(PROMPTS, TEXTS)
    for got in (
        generator.contrast(PROMPTS, OTHERS, TEXTS, alpha=0.0),
        generator.contrast(PROMPTS, PROMPTS, TEXTS, alpha=0.5),
    ):
        for ours, theirs in zip(got, plain, strict=True):
            assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-5)


def test_equal_prompts_are_prefilled_once_in_a_batch(build, monkeypatch):
    generator, seen = build(), []
    read = Reading.read
    monkeypatch.setattr(Reading, "read", lambda reading, batch: seen.append(list(batch)) or read(reading, batch))
    generator.contrast([PROMPTS[0], PROMPTS[0], PROMPTS[1]], ["who"] * 3, [" Ada", " Fenn", " Ada"], alpha=0.5)
    assert [len(batch) for batch in seen] == [3]


def test_chat_prompts_and_cut_passages(build, templates):
    passage = "Velm lies on the river Ull. " * 200
    grounded = Prompt(messages=(("user", f"{passage}\nwho is the mayor"),), trim=(passage,))
    bare = Prompt(messages=(("user", "who is the mayor"),))
    generator = build(template=templates["chatml"])
    (result,) = generator.contrast([grounded], [bare], ["Ada"], alpha=0.5)
    assert result.truncated
    assert generator.counts["truncated"] == 1 and generator.counts["prompts"] == 2


def test_refuses_what_has_no_meaning_in_a_contrast(build):
    generator = build()
    assert generator.contrast([], [], [], alpha=0.5) == []
    with pytest.raises(ValueError, match="1 prompts, 2 others"):
        generator.contrast(["a"], ["b", "c"], ["x"], alpha=0.5)
    for alpha in (-1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="alpha"):
            generator.contrast(["a"], ["b"], ["x"], alpha=alpha)
    with pytest.raises(ValueError, match="empty continuation"):
        generator.contrast(["a"], ["b"], [""], alpha=0.5)
    with pytest.raises(ValueError, match="different spaces"):
        generator.contrast(["a "], ["b"], ["x"], alpha=0.5)
