"""What the sample world consists of: facts, entities, groups."""

from __future__ import annotations

from dataclasses import dataclass, field

# Nominative, possessive, objective.
PRONOUNS = {"female": ("she", "her", "her"), "male": ("he", "his", "him"), "": ("it", "its", "it")}


@dataclass(frozen=True)
class Fact:
    """One attribute's value.

    Attributes:
        value: As it stands in running text, e.g. ``"the Harnel Bridge"``, ``"143 kilometres"``.
        target: Key of the entity that the value names, ``""`` when it names none.
        gender: ``"female"`` or ``"male"`` when the value is a person, else ``""``.
    """

    value: str
    target: str = ""
    gender: str = ""

    @property
    def answers(self) -> tuple[str, ...]:
        """Gold answers: the value without its article, and a measure also as the bare number."""
        core = self.value
        for word in ("the ", "a ", "an "):
            core = core.removeprefix(word)
        number, _, unit = core.partition(" ")
        return (core, number) if unit and number.replace(",", "").isdigit() else (core,)


@dataclass
class Entity:
    """Something that passages are about.

    Attributes:
        key: Its place in the group, e.g. ``"town1"``.
        kind: Name of its frame file.
        name: In running text, with its article if it has one.
        noun: What it is: ``"bridge"``, ``"novelist"``.
        gender: ``"female"``, ``"male"`` or ``""``.
        facts: By attribute.
        birth: Year of birth, of people.
    """

    key: str
    kind: str
    name: str
    noun: str
    gender: str = ""
    facts: dict[str, Fact] = field(default_factory=dict)
    birth: int = 0

    @property
    def title(self) -> str:
        """The name without ``the``."""
        return self.name.removeprefix("the ")

    @property
    def fact_of_naming(self) -> Fact:
        """The fact value that names this entity."""
        return Fact(self.name, self.key, self.gender)


@dataclass(frozen=True)
class Group:
    """A closed set of linked entities.

    Attributes:
        number: From 0.
        entities: By key, in corpus order.
    """

    number: int
    entities: dict[str, Entity]
