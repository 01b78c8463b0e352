"""Tokens at the seam of prompt and continuation."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from utilitune.generator import TransformersGenerator
from utilitune.generator.boundary import Boundary


@pytest.fixture
def merging():
    """``Answer`` is one token, so that prompt ``Ans`` + answer ``wer`` leaves the answer none of its own."""
    vocab = {
        piece: number for number, piece in enumerate(["<s>", *"Answer Iknow'’t", "An", "Ans", "er", "wer", "Answer"])
    }
    merges = [("A", "n"), ("An", "s"), ("e", "r"), ("w", "er"), ("Ans", "wer")]
    inner = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.Split(" ", "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", model_max_length=64)


def test_merge_across_the_seam_keeps_the_answer_its_tokens(merging):
    """B18: a merge across the seam."""
    boundary = Boundary(merging, 400)
    assert merging.convert_ids_to_tokens(boundary.encode("Answer")) == ["Answer"]
    prompt, moved = boundary.plain_prompt("Ans")
    assert merging.convert_ids_to_tokens(prompt) == ["Ans"]
    assert merging.convert_ids_to_tokens(boundary.continuation("wer", moved)) == ["wer"]


def test_trailing_spaces_move_to_the_continuation(tiny, tokenizers_of):
    generator = TransformersGenerator(tiny("llama"), tokenizers_of())
    with_space, leading = generator.score(["Answer: ", "Answer:"], ["Ada Fenn", " Ada Fenn"])
    assert with_space.token_ids == leading.token_ids
    assert with_space.logprobs == pytest.approx(leading.logprobs, abs=1e-6)
    bare = generator.score(["Answer:"], ["Ada Fenn"])[0]
    assert bare.token_ids != leading.token_ids


def test_chat_prompts_do_not_meet_the_seam(tiny, tokenizers_of, templates):
    from utilitune.generator import Prompt

    generator = TransformersGenerator(tiny("llama"), tokenizers_of(templates["chatml"]))
    prompt = Prompt(messages=(("user", "Who? "),))
    text = generator.render(prompt)
    whole = generator.tokenizer(text + "Ada Fenn", add_special_tokens=False)["input_ids"]
    scored = generator.score([prompt], ["Ada Fenn"])[0]
    assert [*generator._encode(prompt).ids, *scored.token_ids] == whole


def test_every_continuation_has_a_token(tiny, tokenizers_of):
    """B18: no text is scored by no token."""
    generator = TransformersGenerator(tiny("llama"), tokenizers_of())
    for text in ("I don't know", "I don’t know", " I don't know", " ", "\n"):
        scored = generator.score(["Answer: "], [text])[0]
        assert len(scored.tokens) == len(scored.logprobs) == len(scored.entropies) >= 1
    for empty in ("", ()):
        with pytest.raises(ValueError, match="empty continuation"):
            generator.score(["Answer:"], [empty])


def test_prefix_space_tokenizers_are_anchored():
    """A tokenizer that prepends a space to all it is given must not do so in the middle of a text."""
    pieces = ["<unk>", "<s>", "▁", "\n", *"NO-wer", "▁wer", "we", "wer"]
    inner = Tokenizer(
        models.BPE({p: i for i, p in enumerate(pieces)}, [("w", "e"), ("we", "r"), ("▁", "wer")], unk_token="<unk>")
    )
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", bos_token="<s>")
    boundary = Boundary(tokenizer, 20)
    assert tokenizer.convert_ids_to_tokens(boundary.encode("wer")) == ["▁wer"]
    assert tokenizer.convert_ids_to_tokens(boundary.continuation("wer")) == ["wer"]
    assert tokenizer.convert_ids_to_tokens(boundary.continuation(" wer")) == ["▁wer"]
