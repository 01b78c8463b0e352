import pytest

from utilitune.rewrite import clean_rewrite
from utilitune.rewrite.clean import normalise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("When did Mira Tolve die?", "When did Mira Tolve die?"),
        ('Rewritten question: "When did Mira Tolve die?"', "When did Mira Tolve die?"),
        ("```\nwhen did mira tolve die\n```", "when did mira tolve die"),
        ("```text\nwhen did she die```", "when did she die"),
        (
            "Sure! Here is the rewritten question:\n\nWhen did Mira Tolve die?\nI hope it helps.",
            "When did Mira Tolve die?",
        ),
        ("Here's the stand-alone search query: mira tolve death", "mira tolve death"),
        ("**Query:** orlen  glassworks\tfounder", "orlen glassworks founder"),
        ("- “Who founded the mill?”", "Who founded the mill?"),
        ("1. who founded the mill", "who founded the mill"),
        ("assistant:\nwho founded the mill", "who founded the mill"),
        ("<|im_start|>assistant\nwho founded the mill<|im_end|>", "who founded the mill"),
        ("  \n\n who\u00a0is\u200b x \n", "who is x"),
        ("«Qui a fondé le moulin ?»", "Qui a fondé le moulin ?"),
        # What only looks like decoration stays.
        ('"Dune" or "Solaris", which came first?', '"Dune" or "Solaris", which came first?'),
        ("Question Time presenter 2019", "Question Time presenter 2019"),
        ("search engine history", "search engine history"),
        ("10.5 million people live where?", "10.5 million people live where?"),
        ("C++ vs C#", "C++ vs C#"),
        ("誰が橋を建てましたか", "誰が橋を建てましたか"),
    ],
)
def test_strips_what_is_not_the_query(text, expected):
    assert clean_rewrite(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "  \n\t", "???", '""', "```\n```", "Rewritten question:", "the " * 30, "word " * 60, "x" * 301, "\u200b"],
)
def test_refuses_what_is_no_query(text):
    assert clean_rewrite(text) is None


def test_limits_are_inclusive():
    assert clean_rewrite("x" * 300) == "x" * 300
    assert clean_rewrite("abc", max_characters=2) is None
    assert clean_rewrite("a b c", max_words=2) is None


def test_cleaning_twice_changes_nothing():
    for text in ('Query: "Question: who"', "- * **who** is", "Sure, here is the query: `a b`"):
        once = clean_rewrite(text)
        assert once is not None
        assert clean_rewrite(once) == once


def test_normalise_joins_what_a_retriever_would_read_alike():
    assert normalise("Cats ") == normalise("cats?") == "cats"
    assert normalise("ＡＢＣ　x") == "abc x"
    assert normalise("Straße") == normalise("STRASSE")
    assert normalise("a-b") == normalise("a b") != normalise("ab")
