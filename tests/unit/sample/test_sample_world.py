"""The facts of the world: consistent years, closed groups, one side tells who made a work."""

import pytest

from utilitune.sample.frames import KINDS, phrases, sections
from utilitune.sample.world import FIRST_YEAR, build_group

GROUPS = [build_group(number, seed) for seed in (1, 7) for number in range(120)]
MAKERS = {
    "landmark1": ("architect", "built"), "landmark2": ("architect", "built"), "book": ("novelist", "year"),
    "film": ("director", "year"), "song": ("composer", "year"), "invention": ("inventor", "year"),
    "firm": ("industrialist", "year"), "town1": ("founder1", "founded"), "town2": ("founder2", "founded"),
}  # fmt: skip


def year(entity, attribute):
    return int(entity.facts[attribute].value)


def test_nobody_acts_before_twenty_or_after_death():
    for group in GROUPS:
        for work, (maker, attribute) in MAKERS.items():
            person = group.entities[maker]
            done = year(group.entities[work], attribute)
            assert year(person, "born") + 20 <= done < year(person, "died"), (group.number, work)


def test_lives_are_of_human_length():
    for group in GROUPS:
        for person in group.entities.values():
            if person.kind == "person":
                assert 45 <= year(person, "died") - year(person, "born") <= 92
                assert year(person, "died") <= 2015


def test_later_things_come_later():
    for group in GROUPS:
        entities = group.entities
        assert year(entities["film"], "year") > year(entities["book"], "year")
        for town in ("town1", "town2"):
            assert year(entities[town], "railway") > year(entities[town], "founded")
        assert year(entities["event"], "year") > year(entities["town2"], "founded")
        for place in ("landmark1", "landmark2"):
            assert year(entities[place], "repaired") > year(entities[place], "built")
            first = FIRST_YEAR.get(entities[place].facts["material"].value, 0)
            assert first <= year(entities[place], "built")


def test_people_are_born_in_towns_that_exist():
    for group in GROUPS:
        for person in group.entities.values():
            home = person.facts["birthplace"].target if person.kind == "person" else ""
            if home:
                assert year(group.entities[home], "founded") < year(person, "born")


def test_siblings_share_surname_father_and_home_but_not_name():
    for group in GROUPS:
        for one, two in (("founder1", "founder2"), ("novelist", "composer")):
            first, second = group.entities[one], group.entities[two]
            assert first.name.split()[-1] == second.name.split()[-1]
            assert first.name != second.name
            assert all(first.facts[a] == second.facts[a] for a in ("parent", "birthplace"))
            assert 2 <= abs(first.birth - second.birth) <= 8


def test_links_stay_in_the_group_and_name_their_target():
    for group in GROUPS:
        for entity in group.entities.values():
            for fact in entity.facts.values():
                if fact.target:
                    assert fact.value == group.entities[fact.target].name


def test_one_side_only_tells_who_made_a_work():
    told = {"maker": 0, "masterpiece": 0}
    for group in GROUPS:
        for work in ("landmark1", "book", "film", "song", "invention"):
            maker = group.entities[MAKERS[work][0]]
            by_work = "maker" in group.entities[work].facts
            by_maker = maker.facts["masterpiece"].target == work if "masterpiece" in maker.facts else False
            assert by_work != by_maker
            told["maker" if by_work else "masterpiece"] += 1
    assert min(told.values()) > 100


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_many_and_complete(kind):
    listed = [name for section in sections(kind) for name in section]
    assert sorted(listed) == sorted(phrases(kind))
    for name, bank in phrases(kind).items():
        assert len(bank.say) >= 6, name
        assert len(bank.ask) >= 5, name
        assert len(bank.tail) >= 2 and len(bank.phrase) >= 2 and len(bank.brief) >= 2, name
        assert len({frame.named for frame in bank.say}) == len(bank.say), name
        for frame in bank.say:
            assert "{v}" in frame.named or "{av}" in frame.named, frame
        for text in (*bank.tail, *bank.phrase):
            assert ("{v}" in text or "{av}" in text) and "{S}" not in text, text
        for frame in bank.ask:
            assert "{v}" not in frame.named and any(slot in frame.named for slot in ("{S}", "{P}", "{O}")), frame
        for text in bank.brief:
            assert "{S}" not in text and text.endswith("?"), text


def test_every_fact_has_a_place_in_a_passage():
    for group in GROUPS[:10]:
        for entity in group.entities.values():
            assert set(entity.facts) <= {name for section in sections(entity.kind) for name in section}
