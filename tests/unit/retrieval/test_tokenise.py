"""Terms: what must meet meets, what must part parts."""

from __future__ import annotations

import unicodedata

import pytest

from utilitune.errors import ConfigError
from utilitune.retrieval.tokenise import Tokeniser, split


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Vitamin C and K", ["vitamin", "c", "and", "k"]),
        ("", []),
        (" \t\n ", []),
        ("?!", []),
        ("3.14 apples_pears", ["3", "14", "apples", "pears"]),
        ("Velmar's harbour, Velmar\u2019s fleet, 's it", ["velmar", "harbour", "velmar", "fleet", "s", "it"]),
        ("l'eau don't", ["l", "eau", "don", "t"]),
        ("STRASSE straße", ["strasse", "strasse"]),
        ("İstanbul", ["istanbul"]),
        ("ﬁne ｆｕｌｌ ①", ["fine", "full", "1"]),
        ("co\u00adoperate foo\u200bbar", ["cooperate", "foo", "bar"]),
        ("東京都", ["東京", "京都"]),
        ("東京", ["東京"]),
        ("水", ["水"]),
        ("ラーメン屋", ["ラー", "ーメ", "メン", "ン屋"]),
        ("ﾊﾝｶｸ", ["ハン", "ンカ", "カク"]),
        ("東京・大阪", ["東京", "大阪"]),
        ("東京Tower第2", ["東京", "tower", "第", "2"]),
        ("서울은 물", ["서울", "울은", "물"]),
        ("กิน", ["กิน"]),
        ("กินข้าว", ["กิน", "นข้", "ข้า", "าว"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
        ("١٩٧١ १९७१", ["1971", "1971"]),
        ("ok 👍🏽 1️⃣", ["ok", "👍", "1"]),
        ("🎉", ["🎉"]),
        ("a\ud800b", ["a", "b"]),
    ],
)
def test_terms(text: str, terms: list[str]) -> None:
    assert split(text) == terms


@pytest.mark.parametrize("word", ["café", "Ångström", "naïve", "Việt", "한국", "がくせい"])
def test_composed_and_decomposed_forms_meet(word: str) -> None:
    composed, decomposed = unicodedata.normalize("NFC", word), unicodedata.normalize("NFD", word)
    assert composed != decomposed
    assert split(composed) == split(decomposed) == split(composed.upper()) != []


def test_optional_vowel_points_do_not_matter() -> None:
    assert split("مَرْحَبًا") == split("مرحبا") == split("مـــرحبا")
    assert split("שָׁלוֹם") == split("שלום")
    assert split("می\u200cخواهم") == split("میخواهم")


@pytest.mark.parametrize("script", ["東京都の人口は多い", "สวัสดีชาวโลก", "ສະບາຍດີ", "ភាសាខ្មែរ", "မြန်မာစာ", "안녕하세요"])
def test_two_characters_find_longer_text_and_no_mark_stands_alone(script: str) -> None:
    terms = split(script)
    assert len(terms) > 1
    for term in terms:
        assert not unicodedata.category(term[0]).startswith("M")
        assert split(term) == [term]


def test_stopwords_leave_letters_that_name_things() -> None:
    tokenise = Tokeniser()
    assert tokenise("the of and") == tokenise("What is it?") == []
    assert tokenise("vitamin A, C and K") == ["vitamin", "a", "c", "k"]
    assert Tokeniser("none")("the of and") == ["the", "of", "and"]
    assert Tokeniser(["Velmar", "ist"])("Velmar ist eine Stadt") == ["eine", "stadt"]


def test_settings_come_back_from_json() -> None:
    for tokeniser in (Tokeniser(), Tokeniser("none", ("thai",)), Tokeniser(frozenset({"x"}), ())):
        again = Tokeniser.from_dict(tokeniser.as_dict())
        assert again.as_dict() == tokeniser.as_dict()
        assert again("the x 東京都 สวัสดี") == tokeniser("the x 東京都 สวัสดี")


def test_scripts_can_be_left_whole() -> None:
    assert split("서울은", pairs=("han",)) == ["서울은"]
    assert split("東京都", pairs=()) == ["東京都"]


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="english"):
        Tokeniser("klingon")
    with pytest.raises(ConfigError, match="hiragana"):
        Tokeniser(pairs=("runes",))


def test_ascii_and_general_way_agree() -> None:
    text = "The Velmar's fleet: 12 ships, 3.5 knots_each; DON'T wait -- e.g. A-B"
    # One non-ASCII symbol at the end takes the general way.
    assert split(text + " 🎉") == [*split(text), "🎉"]
