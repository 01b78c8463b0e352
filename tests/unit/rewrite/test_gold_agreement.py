import pytest

from utilitune.errors import DataError
from utilitune.records import PreferencePair, Run
from utilitune.rewrite import gold_agreement
from utilitune.rewrite.gold_agreement import GoldAgreement

ORDER = {"good": ["g", "x"], "late": ["x", "g"], "bad": ["x"], "none": []}


class Shelf:
    def search_texts(self, texts, k=10):
        return Run({key: [(one, 1.0) for one in ORDER[text]] for key, text in texts.items()})


def pair(query, chosen, rejected):
    sides = [({"role": "assistant", "content": text},) for text in (chosen, rejected)]
    return PreferencePair(query, ({"role": "user", "content": "?"},), *sides, 1.0, 0.0)


def test_agreement_by_hand():
    pairs = [pair("q", "good", "late"), pair("q", "late", "bad"), pair("q", "bad", "good"), pair("q", "bad", "none")]
    pairs.append(pair("unjudged", "good", "bad"))
    found = gold_agreement(pairs, {"shelf": Shelf()}, {"q": {"g": 1.0}, "unjudged": {}})["shelf"]
    assert (found.right, found.differ, found.judged) == (2, 3, 4)
    # One question: its three pairs share candidates, and say nothing about other questions.
    assert found.interval() is None
    assert "in 0.667 of the 3 pairs that differ (1 questions; 4 pairs judged)" in str(found)


def test_one_pair_a_question_has_wilsons_interval():
    pairs = [pair("1", "good", "late"), pair("2", "late", "bad"), pair("3", "bad", "good")]
    found = gold_agreement(pairs, {"shelf": Shelf()}, {name: {"g": 1.0} for name in "123"})["shelf"]
    # Wilson, 2 of 3: centre (2/3 + z^2/6) / (1 + z^2/3), z = 1.96
    assert "in 0.667 [0.208, 0.939] of the 3 pairs that differ (3 questions; 3 pairs judged)" in str(found)


def test_pairs_of_one_question_count_as_one_draw():
    """Twice the pairs by the same questions is no more evidence."""
    once = GoldAgreement(((1, 1),) * 12 + ((0, 1),) * 8, 20, 20)
    thrice = GoldAgreement(((3, 3),) * 12 + ((0, 3),) * 8, 60, 20)
    assert (once.right / once.differ, thrice.right / thrice.differ) == (0.6, 0.6)
    low, high = thrice.interval()
    assert high - low == pytest.approx(once.interval()[1] - once.interval()[0], abs=0.05)
    assert GoldAgreement(((3, 3),) * 12, 36, 12).interval() == GoldAgreement(((1, 1),) * 12, 12, 12).interval()
    assert GoldAgreement(((0, 2),) * 12, 24, 12).interval()[0] == 0.0


def test_questions_of_one_conversation_count_as_one_draw():
    pairs = [pair(name, *sides) for name in ("a1", "a2", "a3") for sides in [("good", "late")]]
    pairs += [pair(name, "bad", "good") for name in ("b1", "b2", "b3")] + [pair("c1", "late", "bad")]
    clusters = {name: name[0] for name in ("a1", "a2", "a3", "b1", "b2", "b3", "c1")}
    qrels = {name: {"g": 1.0} for name in clusters}
    found = gold_agreement(pairs, {"shelf": Shelf()}, qrels, clusters)["shelf"]
    assert (found.right, found.differ, found.questions, found.groups) == (4, 7, 7, ((3, 3), (0, 3), (1, 1)))
    assert "(7 questions of 3 conversations; 7 pairs judged)" in str(found)
    # A draw of conversation b alone has none right, one without it all.
    assert found.interval() == (0.0, 1.0)
    alone = gold_agreement(pairs, {"shelf": Shelf()}, qrels)["shelf"]
    assert alone.interval()[0] > 0.1 and alone.interval()[1] < 0.9
    with pytest.raises(DataError, match="no cluster"):
        gold_agreement(pairs, {"shelf": Shelf()}, qrels, {"a1": "a"})


def test_nothing_that_differs_is_said():
    found = gold_agreement([pair("q", "bad", "none")], {"shelf": Shelf()}, {"q": {"g": 1.0}})["shelf"]
    assert str(found) == "none of 1 judged pairs differs in its gold rank"
