import pytest

from utilitune.generator.protocol import Continuation
from utilitune.records.query import Query, Turn
from utilitune.scoring.key_tokens import delta_logprob, every_token, question_overlap


def answer(tokens, logprobs=None):
    logprobs = logprobs or [-1.0] * len(tokens)
    text = "".join(tokens).translate({0x0120: " ", 0x2581: " "}).strip()
    return Continuation(text, tuple(tokens), (), tuple(logprobs), (0.5,) * len(tokens))


def overlap(question, tokens, history=()):
    given = answer(tokens)
    mask = question_overlap(Query("q", question, history), given, given, 1.0)
    return [token for token, kept in zip(tokens, mask, strict=True) if kept]


CAPITAL = "What is the capital of Lubana?"


def test_an_answer_that_copies_the_question_keeps_only_its_answer_token():
    tokens = ["The", " capital", " of", " Lubana", " is", " Veltra", "."]
    assert overlap(CAPITAL, tokens) == [" Veltra"]


@pytest.mark.parametrize("mark", ["\u0120", "\u2581"])
def test_vocabulary_marks_for_spaces_are_read_as_spaces(mark):
    tokens = [mark + word for word in ("The", "capital", "is", "Veltra")]
    assert overlap(CAPITAL, tokens) == [f"{mark}Veltra"]


def test_words_cut_into_tokens_count_as_whole_words():
    assert overlap(CAPITAL, ["The", " cap", "ital", " of", " Lub", "ana", " is", " Vel", "tra"]) == [" Vel", "tra"]


def test_a_piece_that_occurs_in_the_question_does_not_drop_a_new_word():
    # "an" and "a" occur inside "Lubana", but the answer's word is another one.
    assert overlap(CAPITAL, [" an", "a", "lyst"]) == [" an", "a", "lyst"]


def test_case_and_composition_do_not_matter():
    assert overlap("Wo liegt CAF\u00c9 STRASSE?", ["cafe\u0301", " straße", " Nord"]) == [" Nord"]


def test_earlier_questions_of_the_user_count_but_earlier_answers_do_not():
    history = (Turn("user", "Where is Quill?"), Turn("assistant", "On the Meru."))
    assert overlap("And its mayor?", [" Quill", " Meru"], history) == [" Meru"]


def test_scripts_without_spaces_go_by_character():
    assert overlap("東京の人口は", ["東京", "の", "川"]) == ["川"]


def test_nothing_new_means_all_tokens():
    assert overlap(CAPITAL, ["The", " capital"]) == ["The", " capital"]
    assert overlap(CAPITAL, [""]) == [""]


def test_delta_by_hand():
    own, other = answer("abcd", [-0.1, -0.2, -3.0, -1.0]), answer("abcd", [-0.1, -1.2, -1.0, -1.9])
    query = Query("q", "?")
    # Differences 0, 1.0, 2.0, 0.9.
    assert delta_logprob(query, own, other, 1.0) == (False, True, True, False)
    assert delta_logprob(query, own, other, 1.5) == (False, False, True, False)
    assert delta_logprob(query, own, other, 0.0) == (True,) * 4
    assert delta_logprob(query, own, other, 5.0) == (True,) * 4, "an empty selection means all"


def test_different_lengths_are_refused():
    with pytest.raises(ValueError, match="2 tokens under its own prompt, 1 under the other"):
        delta_logprob(Query("q", "?"), answer("ab"), answer("a"), 1.0)


def test_every_token():
    assert every_token(Query("q", "a b"), answer("ab"), answer("ab"), 1.0) == (True, True)
