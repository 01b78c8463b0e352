"""Titles of works and names of firms: one for each group, no two alike."""

from __future__ import annotations

from math import prod

from utilitune.sample.names import package_yaml, spread

# Per kind: templates used in turn, each with its own word lists; `nouns<`/`nouns>` are the two halves of a list.
_TEMPLATES: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "book": (
        ("The {} {}", ("adjectives", "nouns")),
        ("{} {} in {}", ("counts", "plurals", "months")),
        ("The {}'s {}", ("beasts", "nouns")),
        ("{} and {}", ("nouns<", "nouns>")),
        ("The Last {}, the First {}", ("nouns<", "beasts")),
    ),
    "film": (
        ("{} {}", ("adjectives", "plurals")),
        ("Goodbye, {} {}", ("adjectives", "beasts")),
        ("{} {} {}", ("counts", "adjectives", "plurals")),
        ("The {} and the {}", ("beasts", "nouns")),
        ("Waiting for the {} {}", ("adjectives", "beasts")),
    ),
    "song": (
        ("The Ballad of the {} {}", ("adjectives", "beasts")),
        ("O {} {}", ("adjectives", "nouns")),
        ("The {} {} Waltz", ("adjectives", "beasts")),
        ("Farewell, My {} {}", ("adjectives", "nouns")),
        ("{} {}, {} {}", ("counts", "plurals<", "counts", "plurals>")),
    ),
}
# Past the end of a short template, which only very large corpora reach.
_OVERFLOW: dict[str, tuple[str, tuple[str, ...]]] = {
    "book": ("The {} {} and the {} {}", ("adjectives", "nouns", "adjectives", "beasts")),
    "film": ("The {} {} Meets the {} {}", ("adjectives", "beasts", "adjectives", "nouns")),
    "song": ("The {} {}'s {} {}", ("adjectives", "beasts", "adjectives", "nouns")),
}
_FIRM = ("{} {} {}", ("adjectives", "beasts", "works"))


def _words(name: str) -> list[str]:
    pools = package_yaml("values.yaml")
    words: list[str] = pools[name.rstrip("<>")]
    half = len(words) // 2
    return words[:half] if name.endswith("<") else words[half:] if name.endswith(">") else words


def _fill(template: tuple[str, tuple[str, ...]], index: int, seed: int, what: str) -> str:
    return template[0].format(*spread(index, seed, [_words(name) for name in template[1]], what=what))


def title_of(kind: str, group: int, seed: int) -> str:
    """Return the title of the book, film or song of a group; no other group has it."""
    templates = _TEMPLATES[kind]
    index, turn = divmod(group, len(templates))
    template = templates[turn]
    if index < prod(len(_words(name)) for name in template[1]):
        return _fill(template, index, seed, f"{kind} titles")
    return _fill(_OVERFLOW[kind], group, seed, f"{kind} titles")


def firm_name(group: int, seed: int) -> str:
    """Return the name of the firm of a group; no other group has it."""
    return _fill(_FIRM, group, seed, "firm names")
