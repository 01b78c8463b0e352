"""Sentence frames, read once from ``frames/*.yaml`` and prepared for filling."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from utilitune.sample.names import package_yaml

KINDS = ("town", "river", "person", "landmark", "book", "film", "song", "invention", "firm", "event")

# In a frame with a pronoun, a preposition takes the object form, "the author of it" becomes "its author", and
# "in it", of a town, becomes "there".
_AFTER_PREPOSITION = re.compile(
    r"\b([Oo]f|[Ii]n|[Oo]n|[Ff]or|[Aa]t|[Tt]o|[Uu]nder|[Ww]ithout|by|with|from|behind|around|past|through|inside|over|below|before|about|between"
    r"|into|across|along|joins|feeds|to wear) \{S\}"
)
_OWNED = re.compile(r"\b[Tt]he ((?:[\w-]+ ){0,2}[\w-]+) of \{O\}")
_THERE = re.compile(r"\b(?:in|at|to) \{O\}", re.IGNORECASE)


@dataclass(frozen=True)
class Frame:
    """One way to say or ask something.

    Attributes:
        named: With a name or a noun for the entity.
        pronoun: With a pronoun for it.
        leads: Whether it starts with the entity, so that "It is well known that ..." may go before it.
        pronoun_reads_well: Whether ``pronoun`` may stand in prose ("in it" seldom does).
    """

    named: str
    pronoun: str
    leads: bool
    pronoun_reads_well: bool

    def says(self, word: str) -> bool:
        """Whether the frame holds a word already: "the town's town hall" reads badly."""
        return word in re.findall(r"[\w-]+", self.named)


@dataclass(frozen=True)
class Phrases:
    """All frames of one attribute: sentences, predicates, participial phrases, questions, elliptic questions."""

    say: tuple[Frame, ...]
    tail: tuple[str, ...]
    phrase: tuple[str, ...]
    ask: tuple[Frame, ...]
    brief: tuple[str, ...]


@dataclass(frozen=True)
class Tone:
    """Voice of a passage.

    Attributes:
        name: Its key in ``tones.yaml``.
        kinds: Kinds of entity that it suits.
        titles: Title frames.
        open: Opening sentences; may be empty.
        close: Closing sentences.
    """

    name: str
    kinds: tuple[str, ...]
    titles: tuple[str, ...]
    open: tuple[str, ...]
    close: tuple[str, ...]


def lines(block: str | list[str]) -> tuple[str, ...]:
    """Split a block scalar into its non-empty lines."""
    rows = block.splitlines() if isinstance(block, str) else block
    return tuple(row.strip() for row in rows if row.strip())


def prepare(text: str, kind: str) -> Frame:
    """Derive the pronoun form of a frame."""
    form = _AFTER_PREPOSITION.sub(r"\1 {O}", text)
    form = _OWNED.sub(r"{P} \1", form)
    if kind == "town":
        form = _THERE.sub("there", form)
    well = "{O}" not in form or kind == "person"
    return Frame(text, form, text.startswith("{S} "), well)


@cache
def sections(kind: str) -> tuple[tuple[str, ...], ...]:
    """Return the attributes of each passage of a kind."""
    return tuple(tuple(section) for section in package_yaml(f"frames/{kind}.yaml")["sections"])


@cache
def phrases(kind: str) -> dict[str, Phrases]:
    """Return the frames of a kind by attribute."""
    rows: dict[str, Any] = package_yaml(f"frames/{kind}.yaml")["attributes"]
    return {
        attribute: Phrases(
            say=tuple(prepare(text, kind) for text in lines(row["say"])),
            tail=lines(row["tail"]),
            phrase=lines(row["with"]),
            ask=tuple(prepare(text, kind) for text in lines(row["ask"])),
            brief=lines(row["brief"]),
        )
        for attribute, row in rows.items()
    }


@cache
def tones(kind: str) -> tuple[Tone, ...]:
    """Return the tones that suit a kind."""
    rows = package_yaml("frames/tones.yaml")
    every = tuple(
        Tone(name, tuple(row.get("for", KINDS)), lines(row["title"]), lines(row["open"]), lines(row["close"]))
        for name, row in rows.items()
        if name not in ("leads", "fillers")
    )
    return tuple(tone for tone in every if kind in tone.kinds)


@cache
def leads() -> tuple[str, ...]:
    """Return the phrases that may go before a plain statement."""
    return lines(package_yaml("frames/tones.yaml")["leads"])


@cache
def fillers(kind: str) -> tuple[str, ...]:
    """Return sentences that state no attribute."""
    return lines(package_yaml("frames/tones.yaml")["fillers"][kind])
