"""Near-duplicates of the best candidate."""

from __future__ import annotations

import pytest

from utilitune.errors import ConfigError
from utilitune.records import Dataset, Labels, Passage, Query, UtilityLabel
from utilitune.rerank import build_groups
from utilitune.rerank.near_duplicates import near_duplicates_of_best, resemblance

LONG = " ".join(f"word{place}" for place in range(100))


def test_resemblance_by_hand():
    # Triples of "one two three four": 2; of "one two three five": 2; 1 in common, 3 in all.
    assert resemblance("one two three four", "one two three five") == pytest.approx(1 / 3)
    assert resemblance("One, two: three!", "one two three") == 1.0
    assert resemblance("one two three", "four five six") == 0.0
    assert resemblance("", "") == 0.0 == resemblance("", "one")
    # 98 triples each; one word changed in the middle touches 3 of them: 95 in common, 101 in all.
    assert resemblance(LONG, LONG.replace("word50 ", "other ")) == pytest.approx(95 / 101)


def test_short_texts_in_the_same_words_are_no_duplicates():
    assert resemblance("red town", "blue town") == 0.0
    assert resemblance("Orlen lies on the Vass.", "Tessel lies on the Vass.") < 0.5


def test_a_script_without_spaces():
    assert resemblance("東京都の人口は多い", "東京都の人口は多い。") == 1.0
    assert 0 < resemblance("東京都の人口は多い", "大阪府の人口は多い") < 0.8


def test_only_the_best_is_compared_with():
    texts = [LONG, LONG + " end", "other text of some length", "other text of some length too"]
    assert near_duplicates_of_best(texts, [0.2, 0.9, 0.5, 0.1], 0.8) == {0}
    assert near_duplicates_of_best(texts, [0.2, 0.9, 0.5, 0.1], 1.0) == set()


def groups_of(**options):
    corpus = [Passage("best", LONG), Passage("copy", LONG + " end"), Passage("other", "a river runs through the town")]
    rows = [
        UtilityLabel("q", (pid,), u, "ok", "gain@00000000") for pid, u in (("best", 2.0), ("copy", 1.9), ("other", 0.0))
    ]
    return build_groups(Labels(rows), Dataset(corpus, [Query("q", "x")]), **options)


def test_groups_leave_them_out_and_count_them():
    groups = groups_of()
    assert groups[0].passage_ids == ("best", "other")
    assert groups.drops == {"candidates left out, near-duplicates of the best": 1}
    assert groups_of(near_duplicate=None)[0].passage_ids == ("best", "copy", "other")
    assert groups_of(near_duplicate=1.0)[0].size == 3
    with pytest.raises(ConfigError, match="near_duplicate is 0"):
        groups_of(near_duplicate=0.0)
