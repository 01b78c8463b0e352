"""Invented names: one reading each, no repetition."""

from collections import Counter

import pytest

from utilitune.errors import ConfigError
from utilitune.sample.names import CATEGORIES, phonologies, spread
from utilitune.sample.titles import firm_name, title_of
from utilitune.sample.world import build_group


def test_spread_is_a_bijection():
    parts = (["a", "b", "c"], ["x", "y"], ["1", "2", "3", "4"])
    drawn = ["".join(spread(i, 7, parts, what="tests")) for i in range(24)]
    assert len(set(drawn)) == 24
    assert drawn != sorted(drawn)


def test_spread_names_what_ran_out():
    with pytest.raises(ConfigError, match="ran out of hats: 2 exist"):
        spread(2, 0, (["a", "b"],), what="hats")


def test_onsets_and_medials_are_consonants_and_tails_differ():
    vowels = set("aeiouy")
    tails = Counter()
    for tongue in phonologies():
        onsets, nuclei, medials = tongue.stems
        assert all(not set("aeiou") & set(part.lower()) for part in (*onsets, *medials))
        assert all(set(part) <= vowels for part in nuclei)
        assert all(len(set(part)) == len(part) for part in tongue.stems)
        tails.update(m + e for category in CATEGORIES for e in tongue.endings[category] for m in medials)
    assert max(tails.values()) == 1


def test_entity_names_do_not_repeat_over_many_groups():
    # 1,500 groups are 60,000 passages; the argument above covers the rest
    names = Counter(e.name for number in range(1500) for e in build_group(number, 7).entities.values())
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("kind", ["book", "film", "song"])
def test_titles_do_not_repeat_up_to_a_million_passages(kind):
    titles = {title_of(kind, group, 7) for group in range(25_000)}
    assert len(titles) == 25_000


def test_firm_names_do_not_repeat():
    assert len({firm_name(group, 7) for group in range(25_000)}) == 25_000
