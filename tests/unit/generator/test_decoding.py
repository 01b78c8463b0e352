"""Writing answers: stop strings, slices of rows, rows that leave; caches with room."""

from itertools import chain

import pytest
import torch

from utilitune.generator import Prompt, Task, TransformersGenerator, decoding
from utilitune.generator.key_values import KeyValues, RoomyLayer, Span, empty_cache, gathered

PROMPTS = ["the mayor of Velm", "who wrote the opera", "Karsk is a town", "x", "the river Ull runs past the old"]


@pytest.fixture
def build(tiny, tokenizers_of):
    return lambda kind="llama", **more: TransformersGenerator(tiny(kind), tokenizers_of(), **more)


def ids_of(answers):
    return [[each.token_ids for each in row] for row in answers]


@pytest.mark.parametrize("stop", [["e"], ["an", "ou"], ["a "], ["é"], ["\n"], ["r", "zz"], ["t", "\u00b5"]])
def test_stopping_equals_decoding_everything_at_every_step(build, stop, monkeypatch):
    wanted = {"max_new_tokens": 20, "n": 4, "temperature": 1.5, "stop": stop, "seed": 5}
    quick = build().generate(PROMPTS, **wanted)
    monkeypatch.setattr(decoding.Decoder, "_may_stop", lambda self, token, stop: True)
    plain = build().generate(PROMPTS, **wanted)
    assert quick == plain
    if stop == ["e"]:
        assert any(each.finish == "stop" for row in quick for each in row)


def test_slices_of_rows_change_nothing(build, monkeypatch):
    wanted = {"max_new_tokens": 8, "n": 3, "temperature": 1.0, "top_p": 0.9}
    whole = build().generate(PROMPTS, **wanted)
    monkeypatch.setattr(decoding, "MAX_LOGITS", 2 * 400)
    sliced = build().generate(PROMPTS, **wanted)
    assert ids_of(sliced) == ids_of(whole)
    for one, other in zip(chain(*sliced), chain(*whole), strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
        assert one.entropies == pytest.approx(other.entropies, abs=1e-5)


def test_rows_that_end_do_not_disturb_the_others(kind, build):
    generator = build(kind)
    together = generator.generate(PROMPTS, max_new_tokens=16, stop=["e", "a"])
    assert len({len(row[0].token_ids) for row in together}) > 1
    alone = [generator.generate([prompt], max_new_tokens=16, stop=["e", "a"])[0] for prompt in PROMPTS]
    assert ids_of(together) == ids_of(alone)


def test_a_layer_with_room_holds_what_a_growing_one_holds():
    from transformers.cache_utils import DynamicLayer

    torch.manual_seed(0)
    roomy, plain = RoomyLayer(6), DynamicLayer()
    for new in (3, 1, 2):
        keys, values = torch.randn(2, 2, new, 4), torch.randn(2, 2, new, 4)
        got, expected = roomy.update(keys, values), plain.update(keys, values)
        assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
        assert roomy.get_seq_length() == plain.get_seq_length()
    roomy.select(torch.tensor([1]))
    assert torch.equal(roomy.keys, plain.keys[1:])


def test_gathered_rows_end_where_the_new_ones_begin(tiny):
    first, second = (
        KeyValues(tuple((torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)) for _ in range(3))) for _ in range(2)
    )
    cache = empty_cache(tiny("llama").config, 4)
    gathered(cache, [Span(first, 1, 2, 5), None, Span(second, 0, 0, 5)], 4)
    for layer, (keys, _), (other, _) in zip(cache.layers, first.layers, second.layers, strict=True):
        assert layer.keys.shape == (3, 2, 5, 8)
        assert torch.equal(layer.keys[0, :, 2:], keys[1, :, 2:5])
        assert torch.equal(layer.keys[2], other[0])
        assert layer.keys.isfinite().all() and not layer.keys[1].any()


def test_a_short_order_at_the_end_of_the_window_is_not_carried_along(tiny, tokenizers_of):
    """Its row ends long before the others do; positions beyond the window do not exist in GPT-2."""
    generator = TransformersGenerator(tiny("gpt2", positions=64), tokenizers_of())
    full = Prompt.of("x" * 62)
    tasks = [Task(full, 2), *(Task(Prompt.of(letter), 40) for letter in "abcdefgh")]
    assert len(generator.tokenizer("x" * 62)["input_ids"]) == 62
    together = [result.answer.token_ids for result in generator.run(tasks)]
    assert together == [generator.run([task])[0].answer.token_ids for task in tasks]
