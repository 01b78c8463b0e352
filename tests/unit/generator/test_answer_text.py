"""Where an answer ends and which tokens are its own."""

import pytest

from utilitune.generator import TransformersGenerator
from utilitune.generator.answer_text import AnswerText, stop_at


@pytest.fixture
def text(tokenizers_of):
    return AnswerText(tokenizers_of())


def ids_of(text, *parts):
    return [token for part in parts for token in text._tokenizer(part, add_special_tokens=False)["input_ids"]]


def test_stop_at_takes_the_first():
    assert stop_at("ab\ncd.", [".", "\n"]) == 2
    assert stop_at("ab", ["\n"]) == -1
    assert stop_at("ab", []) == -1


def test_end_token_is_left_out(text):
    ids = [*ids_of(text, " Ada Fenn"), 2]
    own, said = text.own(ids, True, ())
    assert (own, said) == (len(ids) - 1, "Ada Fenn")


def test_stop_string_and_what_follows_are_left_out(text):
    ids = ids_of(text, " Ada Fenn", "\n", "Question")
    own, said = text.own(ids, False, ("\n",))
    assert said == "Ada Fenn"
    assert ids[:own] == ids_of(text, " Ada Fenn")


def test_a_stop_string_over_several_tokens(text):
    ids = ids_of(text, " Ada", "\n", "\n", "Q")
    assert text.own(ids, False, ("\n\n",))[0] == len(ids_of(text, " Ada"))


def test_nothing_left_keeps_one_token(text):
    assert text.own([2], True, ()) == (1, "")
    ids = ids_of(text, "\n")
    assert text.own(ids, False, ("\n",)) == (1, "")


def test_generation_stops_at_a_string(tiny, tokenizers_of):
    generator = TransformersGenerator(tiny("llama"), tokenizers_of())
    [free] = generator.generate(["the river Ull"], max_new_tokens=10)[0]
    last = generator._answer_text.decode(free.token_ids[5:6])
    [stopped] = generator.generate(["the river Ull"], max_new_tokens=10, stop=[last])[0]
    assert stopped.finish == "stop"
    assert last not in stopped.text
    assert stopped.token_ids == free.token_ids[: len(stopped.token_ids)]
    assert len(stopped.token_ids) <= 5
