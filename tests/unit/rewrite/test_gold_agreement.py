from utilitune.records import PreferencePair, Run
from utilitune.rewrite import gold_agreement

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
    # Wilson, 2 of 3: centre (2/3 + z^2/6) / (1 + z^2/3), z = 1.96
    assert "in 0.667 [0.208, 0.939] of the 3 pairs that differ (4 judged)" in str(found)


def test_nothing_that_differs_is_said():
    found = gold_agreement([pair("q", "bad", "none")], {"shelf": Shelf()}, {"q": {"g": 1.0}})["shelf"]
    assert str(found) == "none of 1 judged pairs differs in its gold rank"
