"""Short answers: normal form, exact match, F1, containment."""

import re
import string
from collections import Counter

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation import accuracy, answer_tokens, contains, exact_match, f1, normalise_answer
from utilitune.evaluation.answers import is_abstention
from utilitune.records import Answer, Query


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("The  Eiffel Tower!", "eiffel tower"),
        ("an apple a day", "apple day"),
        ("U.S.", "us"),
        ("theatre and another", "theatre and another"),
        ("“Quoted” – text…", "quoted text"),
        ("ﬁne ＦＵＬＬ１２", "fine full12"),
        ("Straße", "strasse"),
        ("cafe\u0301", "café"),
        ("東京、日本。", "東京日本"),
        ("¿Qué?", "qué"),
        ("a\u2028b\tc", "b c"),
        ("A", "a"),
        ("The The", "the the"),
        ("???", "???"),
        ("", ""),
        ("  \n", ""),
        ("1939–1945", "19391945"),
        ("$5", "5"),
    ],
)
def test_normal_form(text, form):
    assert normalise_answer(text) == form
    assert normalise_answer(form) == normalise_answer(normalise_answer(form))


def squad_normalise(text):
    """The rule of SQuAD's script, told in our own words, for ASCII."""
    text = "".join(char for char in text.lower() if char not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def squad_f1(said, gold):
    said, gold = squad_normalise(said).split(), squad_normalise(gold).split()
    same = sum((Counter(said) & Counter(gold)).values())
    if not same:
        return 0.0
    precision, recall = same / len(said), same / len(gold)
    return 2 * precision * recall / (precision + recall)


PAIRS = [
    ("The Norman conquest of 1066", "Norman conquest"),
    ("in 1066, the Normans", "Normans in 1066"),
    ("Denver Broncos.", "the Denver Broncos"),
    ("blue blue red", "blue red red"),
    ("no overlap here", "something else"),
]


@pytest.mark.parametrize(("said", "gold"), PAIRS)
def test_ascii_agrees_with_squad(said, gold):
    assert normalise_answer(said) == squad_normalise(said)
    assert f1(said, [gold]) == pytest.approx(squad_f1(said, gold))
    assert exact_match(said, [gold]) == float(squad_normalise(said) == squad_normalise(gold))


def test_best_over_golds():
    assert exact_match("Paris", ["Rome", "paris."]) == 1.0
    assert f1("the city of Paris", ["Rome", "Paris"]) == pytest.approx(2 * 1 / (3 + 1))
    assert contains("It was in Rome", ["Paris", "Rome"]) == 1.0
    assert exact_match("Rome", "Rome") == 1.0


@pytest.mark.parametrize(
    ("answer", "gold", "found"),
    [
        ("because of that", "us", 0.0),
        ("in the US, mostly", "U.S.", 1.0),
        ("New Yorker", "New York", 0.0),
        ("he lived in New\nYork", "New York", 1.0),
        ("5.5 metres", "5", 0.0),
        ("Einstein's theory", "Einstein", 1.0),
        ("Einstein’s theory", "Einstein", 1.0),
        ("首都は東京です", "東京", 1.0),
        ("首都は東京です", "大阪", 0.0),
        ("เมืองกรุงเทพมหานคร", "กรุงเทพ", 1.0),
        ("", "Paris", 0.0),
        ("the", "The The", 0.0),
        ("an answer", "A", 0.0),
        ("vitamin A", "vitamin A", 1.0),
    ],
)
def test_contains_on_word_boundaries(answer, gold, found):
    assert contains(answer, [gold]) == found


def test_tokens_of_unspaced_scripts():
    assert answer_tokens("東京 tower2の") == ["東", "京", "tower2", "の"]
    assert answer_tokens("서울 특별시") == ["서울", "특별시"]
    assert f1("東京都", ["東京"]) == pytest.approx(2 * 2 / 5)


def test_empty_answer_never_matches_and_blank_golds_are_no_gold():
    for gold in ("A", "the", "?", "Paris"):
        assert exact_match("", [gold]) == f1("", [gold]) == contains("", [gold]) == 0.0
    assert exact_match("x", ["", "x"]) == 1.0
    for measure in (exact_match, f1, contains):
        with pytest.raises(ValueError, match="no gold answer"):
            measure("", ["", "  "])
        with pytest.raises(ValueError, match="no gold answer"):
            measure("", [])


def test_accuracy_per_query():
    queries = [Query("1", "?", answers=("x",)), Query("2", "?", answers=("y",)), Query("3", "?", answers=(" ",))]
    answers = [Answer("1", (), "X!", False, None)]
    assert accuracy(answers, queries) == {"1": 1.0, "2": 0.0}
    assert accuracy(answers, queries, "EM") == {"1": 1.0, "2": 0.0}
    with pytest.raises(ConfigError, match="contains"):
        accuracy(answers, queries, "bleu")
    with pytest.raises(DataError, match="two answers"):
        accuracy(answers * 2, queries)
    with pytest.raises(DataError, match="no answer belongs"):
        accuracy([Answer("77", (), "x", False, None)], queries)


@pytest.mark.parametrize(
    ("text", "said_so"),
    [
        ("NO-RESPONSE", True),
        ("no response.", True),
        ("No‑Response", True),
        ("", False),
        ("No response was given", False),
        ("NO-RESPONSE: the document does not say.", True),
        ("NO-RESPONSE NO-RESPONSE", True),
        ("no-response\nQuestion: who", True),
        ("NO-RESPONSES came", False),
        ("Answer: NO-RESPONSE", False),
    ],
)
def test_abstention(text, said_so):
    assert is_abstention(text) is said_so
