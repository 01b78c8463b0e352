"""The choice among candidates, with a scripted writer and a reader whose labels are read off the passage."""

from collections import Counter

import pytest

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Generation, GeneratorIdentity, TaskResult
from utilitune.records import Passage, Query, Run, Turn
from utilitune.rewrite import BestOf, Rewriter

CORPUS = [Passage("p1", "mira: worth 2"), Passage("p2", "orlen: worth 5"), Passage("p3", "she: worth 1")]
HISTORY = (Turn("user", "who is orlen"), Turn("assistant", "a works"))


class Scripted:
    identity = GeneratorIdentity("scripted", "0", "scripted", "float64")

    def __init__(self, greedy, samples):
        self.greedy, self.samples, self.counts, self.nuclei = greedy, samples, {}, set()

    def generate(self, prompts, *, n=1, temperature=0.0, top_p=1.0, **settings):
        self.nuclei |= {top_p} if temperature else set()
        texts = [self.greedy] if temperature == 0 else self.samples[:n]
        return [[Generation(text, ("x",), (1,), (-1.0,), None, finish="stop") for text in texts] for _ in prompts]

    def run(self, tasks):
        return [TaskResult(self.generate([task.prompt])[0][0], ()) for task in tasks]


class FirstWord:
    """Finds the passage whose first word is in the text."""

    def search_texts(self, texts, k=10):
        return Run(
            {
                key: [(p.id, 1.0) for p in CORPUS if p.text.split(":")[0] in text.split()][:k]
                for key, text in texts.items()
            }
        )


class Written:
    """The number at the end of the passage."""

    name, needs_answers = "written", False

    def __init__(self, fails=()):
        self.parameters, self.fails = {}, fails

    def requests(self, query, passages):
        return {}

    def value(self, query, passages, responses):
        from utilitune.scoring import Value

        if query.id in self.fails:
            return Value(float("nan"), {})
        return Value(float(passages[0].text.split()[-1]), {})


def best_of(writer, **options):
    settings = {"utilities": [Written()], "n": 2, "scale": "raw", "include": ("greedy",), **options}
    return BestOf(Rewriter(writer), {"first": FirstWord()}, CORPUS, generator=writer, **settings)


def test_the_most_useful_candidate_wins():
    chooser = best_of(Scripted("mira died", ["about orlen", "nothing"]), top_p=0.5)
    (made,) = chooser.rewrite_batch([Query("c_2", "when did she die", HISTORY)])
    assert (made.text, made.fallback) == ("about orlen", False)
    assert chooser.counts["rewritten"] == 1
    assert chooser.counts["written"] == 3
    assert chooser.generator.nuclei == {0.5}


def test_of_equals_the_question_stays():
    chooser = best_of(Scripted("she", ["she  ?", "x she"]))
    (made,) = chooser.rewrite_batch([Query("c_2", "when did she die", HISTORY)])
    assert made.text == "when did she die"
    assert chooser.counts["kept"] == 1


def test_no_history_and_no_label_fall_back_to_the_question():
    chooser = best_of(Scripted("mira", ["orlen", "y"]), utilities=[Written(fails=("c_3",))])
    queries = [Query("c_1", "orlen"), Query("c_2", "and she", HISTORY), Query("c_3", "she", HISTORY)]
    made = chooser.rewrite_batch(queries)
    assert [(one.text, one.fallback) for one in made] == [("orlen", False), ("orlen", False), ("she", True)]
    assert (chooser.counts["stand-alone"], chooser.counts["fallback"]) == (1, 1)


def test_a_sample_that_the_question_stood_in_for_is_no_fallback():
    chooser = best_of(Scripted("!!!", ["orlen", "???"]))
    (made,) = chooser.rewrite_batch([Query("c_2", "and she", HISTORY)])
    assert made.text == "orlen"
    assert (chooser.counts["fallback"], chooser.counts["unusable"], chooser.counts["rewritten"]) == (0, 2, 1)


def test_wrong_names_are_refused_at_once():
    with pytest.raises(ConfigError, match="aggregate='median'"):
        best_of(Scripted("a", []), aggregate="median")
    with pytest.raises(ConfigError, match="top_p=2"):
        best_of(Scripted("a", []), top_p=2)
    with pytest.raises(ConfigError, match="human"):
        best_of(Scripted("a", []), include=("human",))


def test_order_is_that_of_the_questions():
    chooser = best_of(Scripted("mira", ["orlen", "y"]))
    made = chooser.rewrite_batch([Query("c_1", "alone  here"), Query("c_2", "and she", HISTORY)])
    assert [(one.query_id, one.text) for one in made] == [("c_1", "alone here"), ("c_2", "orlen")]
    assert Counter(chooser.counts) >= Counter({"stand-alone": 1, "rewritten": 1})
