"""The facts of the sample world: groups of linked entities, each group closed, consistent and a function of its number.

A group is a river, two towns of similar name, their founders (siblings), two landmarks by one architect, a novel, its
film, a song, an invention, a firm, a yearly event and the people behind them: 19 entities, 40 passages. A fact is
stated in one passage only; who made a work is told either on the maker's side or on the work's side, never on both.
"""

from __future__ import annotations

from random import Random
from typing import Any

from utilitune.sample.entity import Entity, Fact, Group
from utilitune.sample.names import Phonology, package_yaml, phonologies
from utilitune.sample.titles import firm_name, title_of

LAST_YEAR = 2015
ORDER = (
    "river", "town1", "town2", "founder1", "founder2", "landmark1", "landmark2", "architect", "book", "novelist",
    "composer", "song", "film", "director", "invention", "inventor", "firm", "industrialist", "event",
)  # fmt: skip
FIRST_YEAR = {"reinforced concrete": 1895, "riveted steel": 1875, "an electric motor": 1885}
FAMILIES = 6  # surnames of a group
THINGS = 4  # stems of landmarks, the invention and the event


def build_group(number: int, seed: int) -> Group:
    """Return group ``number`` of the world ``seed``; the same in every process."""
    return _Builder(number, seed).build()


class _Builder:
    """Draws one group. Years are drawn so that nobody acts before birth or after death."""

    def __init__(self, number: int, seed: int) -> None:
        languages = phonologies()
        self.number, self.seed = number, seed
        self.local, language = divmod(number, len(languages))
        self.tongue: Phonology = languages[(language + seed) % len(languages)]
        self.rng = Random(f"{seed}/world/{number}")
        self.pools: dict[str, Any] = package_yaml("values.yaml")
        self.entities: dict[str, Entity] = {}
        given = {gender: list(names) for gender, names in self.tongue.given.items()}
        for names in given.values():
            self.rng.shuffle(names)
        self.given = given

    def build(self) -> Group:
        self._people()
        self._towns()
        self._landmarks()
        self._works()
        self._industry()
        self._event()
        for entity in self.entities.values():
            if entity.kind == "person":
                self._life(entity)
        return Group(self.number, {key: self.entities[key] for key in ORDER})

    # small draws

    def _pick(self, pool: str) -> str:
        return str(self.rng.choice(self.pools[pool]))

    def _of_its_time(self, pool: str, year: int) -> str:
        """A value that existed in ``year``."""
        return str(self.rng.choice([value for value in self.pools[pool] if FIRST_YEAR.get(value, 0) <= year]))

    def _fact(self, entity: Entity, attribute: str, value: str | Fact | int) -> None:
        entity.facts[attribute] = value if isinstance(value, Fact) else Fact(str(value))

    def _facts(self, entity: Entity, **pools: str) -> None:
        for attribute, pool in pools.items():
            self._fact(entity, attribute, self._pick(pool))

    def _far(self) -> str:
        return self.rng.choice(self.tongue.far)

    def _minor(self, gender: str = "") -> Fact:
        """A person who is a value only; surnames from the upper half, which no family uses."""
        gender = gender or self.rng.choice(("female", "male"))
        size = self.tongue.capacity * len(self.tongue.endings["surname"])
        surname = self.tongue.name_of("surname", self.rng.randrange(size // 2, size), self.seed)
        return Fact(f"{self.rng.choice(self.tongue.given[gender])} {surname}", gender=gender)

    def _money(self, low: int, high: int) -> str:
        amount = self.rng.randrange(low, high)
        return f"{amount:,} {self._pick('currency')}"

    def _add(self, key: str, kind: str, name: str, noun: str, gender: str = "", birth: int = 0) -> Entity:
        entity = Entity(key, kind, name, noun, gender, birth=birth)
        self.entities[key] = entity
        return entity

    # people

    def _person(self, key: str, noun: str, family: int, birth: int) -> Entity:
        gender = self.rng.choice(("female", "male"))
        surname = self.tongue.name_of("surname", self.local * FAMILIES + family, self.seed)
        return self._add(key, "person", f"{self.given[gender].pop()} {surname}", noun, gender, birth)

    def _people(self) -> None:
        rng = self.rng
        trade = self._pick("founders")
        first = rng.randint(1570, 1700)
        self._person("founder1", trade, 0, first)
        self._person("founder2", rng.choice([t for t in self.pools["founders"] if t != trade]), 0, self._sibling(first))
        self._person("architect", "architect", 1, rng.randint(1815, 1890))
        writer = rng.randint(1868, 1912)
        self._person("novelist", "novelist", 2, writer)
        self._person("composer", "composer", 2, self._sibling(writer))
        self._person("inventor", "inventor", 3, rng.randint(1820, 1895))
        self._person("industrialist", "manufacturer", 4, rng.randint(1815, 1885))

    def _sibling(self, birth: int) -> int:
        return birth + self.rng.choice((-8, -7, -5, -4, -3, -2, 2, 3, 4, 5, 7, 8))

    def _deed(self, key: str, youngest: int, oldest: int) -> int:
        """A year in the working life of a person."""
        return self.entities[key].birth + self.rng.randint(youngest, oldest)

    def _life(self, person: Entity) -> None:
        siblings = {"founder2": "founder1", "composer": "novelist"}.get(person.key, "")
        elder = self.entities[siblings].facts if siblings else {}
        early = person.birth < 1750
        town = self.entities[self.rng.choice(("town1", "town2"))]
        home = Fact(self._far()) if early else town.fact_of_naming
        trade = self._pick("old_trades" if early else "trades")
        self._fact(person, "born", person.birth)
        self._fact(person, "birthplace", elder.get("birthplace", home))
        self._fact(person, "parent", elder.get("parent", Fact(trade)))
        self._fact(person, "study", self._far())
        self._facts(person, pastime="pastimes", award="awards", collection="collections", children="small_numbers")
        self._fact(person, "spouse", self._minor("male" if person.gender == "female" else "female"))
        busy_until = max((year for key, year in self.deeds if key == person.key), default=person.birth + 40)
        earliest = max(busy_until + 1, person.birth + 55)
        died = self.rng.randint(earliest, max(earliest, min(person.birth + 91, LAST_YEAR)))
        self._fact(person, "died", died)
        self._fact(person, "deathplace", self.rng.choice([far for far in self.tongue.far if far != home.value]))

    # places

    def _towns(self) -> None:
        rng = self.rng
        self.deeds: list[tuple[str, int]] = []
        stem = self.tongue.stem(self.local, self.seed)
        first, second = rng.sample(self.tongue.endings["town"], 2)
        small = rng.choice(("{}", "Nether {0}", "New {0}", "Little {0}", "{0} Bridge-End", "Upper {0}", "{}"))
        other = stem + second if small == "{}" else small.format(stem + first)
        river = self._add("river", "river", "the " + self.tongue.name_of("river", self.local, self.seed), "river")
        self._river(river)
        for key, founder, name in (("town1", "founder1", stem + first), ("town2", "founder2", other)):
            town = self._add(key, "town", name, "town")
            year = self._deed(founder, 26, 50)
            self.deeds.append((founder, year))
            self._fact(town, "founded", year)
            self._fact(town, "founder", self.entities[founder].fact_of_naming)
            self._fact(town, "river", river.fact_of_naming)
            self._fact(town, "elevation", f"{rng.randint(18, 1480)} metres")
            self._fact(town, "population", f"{rng.randint(2100, 48900):,}")
            self._fact(town, "railway", rng.randint(1855, 1908))
            self._fact(town, "mayor", self._minor())
            self._facts(town, emblem="emblems", craft="crafts", market="weekdays", dish="dishes")
            self._facts(town, hall="stones", school="subjects")

    def _river(self, river: Entity) -> None:
        self._fact(river, "length", f"{self.rng.randint(28, 460)} kilometres")
        self._fact(river, "flood", self.rng.randint(1785, 1962))
        self._facts(river, source="heights", mouth="waters", fish="fish", colour="water_colours")
        self._facts(river, tributary="brooks", legend="beings")
        self._fact(river, "ferry", self._minor())

    def _landmarks(self) -> None:
        rng = self.rng
        kinds = rng.sample(self.pools["landmarks"], 2)
        for number, (kind, town) in enumerate(zip(kinds, ("town1", "town2"), strict=True), start=1):
            own = self.tongue.name_of("thing", self.local * THINGS + number - 1, self.seed)
            name = "the " + " ".join((own, *(word.capitalize() for word in kind.split())))
            place = self._add(f"landmark{number}", "landmark", name, kind)
            built = self._deed("architect", 27, 58)
            self.deeds.append(("architect", built))
            self._fact(place, "built", built)
            self._made_by(place, "architect", told_by_maker=number == 1 and rng.random() < 0.35)
            if kind == "bridge":
                self._fact(place, "material", self._of_its_time("bridge_materials", built))
                self._facts(place, arches="numbers")
                self._fact(place, "span", f"{rng.randint(38, 640)} metres")
            else:
                self._fact(place, "material", self._of_its_time("tower_materials", built))
                height = rng.randint(19, 96)
                self._fact(place, "height", f"{height} metres")
                self._fact(place, "steps", round(height * rng.uniform(3.2, 5.2)))
            self._facts(place, nickname="nicknames")
            self._fact(place, "cost", self._money(12_000, 990_000))
            self._fact(place, "repaired", rng.randint(built + 12, min(built + 75, 1998)))
            self._fact(place, "guest", self._minor())
            self._fact(self.entities[town], "sight", place.fact_of_naming)

    def _made_by(self, work: Entity, maker: str, *, told_by_maker: bool) -> None:
        person = self.entities[maker]
        if told_by_maker:
            self._fact(person, "masterpiece", work.fact_of_naming)
        else:
            self._fact(work, "maker", person.fact_of_naming)

    def _work(self, key: str, kind: str, noun: str, maker: str, year: int) -> Entity:
        work = self._add(key, kind, title_of(kind, self.number, self.seed), noun)
        self.deeds.append((maker, year))
        self._made_by(work, maker, told_by_maker=self.rng.random() < 0.35)
        self._fact(work, "year", year)
        return work

    def _works(self) -> None:
        rng = self.rng
        book = self._work("book", "book", "novel", "novelist", self._deed("novelist", 24, 50))
        self._facts(book, publisher="presses", hero="heroes", prize="book_prizes", language="languages")
        self._facts(book, draft="drafts")
        self._fact(book, "pages", f"{rng.randint(118, 790)} pages")
        self._fact(book, "setting", self._far())
        shown = max(1931, int(book.facts["year"].value) + rng.randint(4, 20))
        self._person("director", "director", 5, shown - rng.randint(28, 52))
        film = self._work("film", "film", "film", "director", shown)
        self._fact(film, "star", self._minor())
        self._fact(film, "runtime", f"{rng.randint(71, 168)} minutes")
        self._fact(film, "source", book.fact_of_naming)
        self._fact(film, "location", self._far())
        self._fact(film, "budget", self._money(40_000, 3_900_000))
        self._fact(film, "score", self._minor())
        self._facts(film, animal="actors_animals")
        song = self._work("song", "song", "song", "composer", self._deed("composer", 21, 52))
        self._facts(song, key="keys", theme="themes", instrument="instruments", verses="numbers")
        self._fact(song, "singer", self._minor())
        self._fact(song, "dedicatee", self._minor())
        self._fact(song, "premiere", self._far())

    def _industry(self) -> None:
        rng = self.rng
        device = rng.choice(sorted(self.pools["devices"]))
        own = self.tongue.name_of("thing", self.local * THINGS + 2, self.seed)
        invention = self._add("invention", "invention", f"the {own} {device}", device)
        year = self._deed("inventor", 25, 50)
        self.deeds.append(("inventor", year))
        self._made_by(invention, "inventor", told_by_maker=rng.random() < 0.35)
        self._fact(invention, "year", year)
        self._fact(invention, "purpose", rng.choice(self.pools["devices"][device]))
        self._fact(invention, "power", self._of_its_time("powers", year))
        self._facts(invention, part="gears")
        self._fact(invention, "demo", self._far())
        self._fact(invention, "weight", f"{rng.randint(9, 640)} kilograms")
        self._fact(invention, "price", self._money(18, 940))
        self._fact(invention, "patent", rng.randint(10_200, 98_900))
        firm = self._add("firm", "firm", firm_name(self.number, self.seed), "firm")
        began = self._deed("industrialist", 25, 48)
        self.deeds.append(("industrialist", began))
        self._made_by(firm, "industrialist", told_by_maker=False)
        self._fact(firm, "year", began)
        self._facts(firm, premises="premises", emblem="firm_emblems", colour="colours")
        self._fact(firm, "bestseller", invention.fact_of_naming)
        self._fact(firm, "staff", rng.randint(34, 2900))
        self._fact(firm, "export", self._far())
        self._fact(firm, "director", self._minor())
        self._fact(self.entities["town1"], "employer", firm.fact_of_naming)

    def _event(self) -> None:
        rng = self.rng
        town = self.entities["town2"]
        style = self._pick("fairs")
        own = self.tongue.name_of("thing", self.local * THINGS + 3, self.seed)
        event = self._add("event", "event", f"the {own} {style}", style.split()[-1].lower())
        self._fact(event, "year", rng.randint(1785, 1934))
        self._facts(event, organiser="organisers", duration="durations", month="months", prize="trophies")
        self._facts(event, food="snacks", opening="openings")
        self._fact(event, "winner", self._minor())
        self._fact(event, "crowd", f"{rng.randint(900, 38_000):,}")
        self._fact(town, "fair", event.fact_of_naming)
