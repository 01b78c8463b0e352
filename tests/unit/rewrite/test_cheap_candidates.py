import pytest

from utilitune.errors import ConfigError
from utilitune.records import Query, Turn
from utilitune.rewrite.cheap import CHEAP
from utilitune.rewrite.sample import sample_candidates

HISTORY = (
    Turn("user", "Who founded the Orlen glassworks?"),
    Turn("assistant", "Mira Tolve did, in 1871."),
    Turn("user", "Where was she born?"),
    Turn("assistant", "In Sarn."),
)
QUERY = Query("c_3", "And when did she die?", HISTORY)


def test_each_form_by_hand():
    assert {name: make(QUERY) for name, make in CHEAP.items()} == {
        "original": "And when did she die?",
        "first-question": "Who founded the Orlen glassworks? And when did she die?",
        "previous-question": "Where was she born? And when did she die?",
        "history": "Who founded the Orlen glassworks? Where was she born? And when did she die?",
        "keywords": "founded orlen glassworks die",
    }


def test_without_history_every_form_is_the_question():
    alone = Query("q", "which is it")
    assert {make(alone) for name, make in CHEAP.items()} == {"which is it"}


def test_a_repeated_question_is_not_said_twice():
    again = Query("q", "where was SHE born", HISTORY[:3])
    assert CHEAP["previous-question"](again) == "Who founded the Orlen glassworks? where was SHE born"
    assert CHEAP["history"](again) == "Who founded the Orlen glassworks? where was SHE born"


def test_the_question_is_always_a_candidate_and_what_is_too_long_is_counted():
    long = Query("c_9", "why", (Turn("user", " ".join(f"word{n}" for n in range(60))), Turn("assistant", "x")))
    made = sample_candidates([QUERY, long], Silent(), n=0, include=("history", "keywords"))
    assert [(row.query_id, row.source) for row in made] == [
        ("c_3", "original"),
        ("c_3", "history"),
        ("c_3", "keywords"),
        ("c_9", "original"),
    ]
    assert made.counts["long"] == 2
    assert made.counts["written"] == 0


def test_forms_that_say_the_same_are_merged():
    query = Query("c_2", "and she?", HISTORY[:2])
    made = sample_candidates([query], Silent(), n=0, include=("first-question", "history", "previous-question"))
    assert [row.source for row in made] == ["original", "first-question"]
    assert made.counts["duplicate"] == 2


def test_an_unknown_form_lists_the_known():
    with pytest.raises(ConfigError, match=r"last-word.*original, first-question, .*keywords, greedy"):
        sample_candidates([QUERY], Silent(), include=("last-word",))


class Silent:
    """A generator that must not be asked anything."""

    class identity:
        @staticmethod
        def key():
            return "silent"
