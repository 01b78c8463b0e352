"""Which passage is where: every group has the same 40 places, so any passage can be found from its number."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

from utilitune.records import Passage
from utilitune.sample.entity import Entity, Group
from utilitune.sample.frames import sections
from utilitune.sample.prose import write
from utilitune.sample.world import build_group


@cache
def places() -> tuple[tuple[str, int], ...]:
    """Return the (entity key, section) of each passage of a group, in corpus order; the same for every group."""
    return tuple(
        (key, section)
        for key, entity in build_group(0, 0).entities.items()
        for section in range(len(sections(entity.kind)))
    )


@cache
def _offsets() -> dict[tuple[str, int], int]:
    return {place: offset for offset, place in enumerate(places())}


def passage_id(number: int) -> str:
    """Return the id of passage ``number``, from 0."""
    return f"p{number:07d}"


def number_of(group: Group, entity: Entity, attribute: str) -> int:
    """Return the number of the one passage that states an attribute of an entity."""
    section = next(i for i, names in enumerate(sections(entity.kind)) if attribute in names)
    return group.number * len(places()) + _offsets()[entity.key, section]


def entity_id(group: int, key: str) -> str:
    """Return the id of an entity, as in ``metadata["entity"]``."""
    return f"g{group:05d}.{key}"


def sample_corpus(passages: int = 400, seed: int = 7) -> Iterator[Passage]:
    """Yield the passages of the sample world one by one, in bounded memory.

    A passage depends on its number and the seed alone: a larger corpus starts with the passages of a smaller one.

    Args:
        passages: How many.
        seed: Which world.

    Yields:
        Passages with ``metadata`` ``entity``, ``kind``, ``tone`` and ``facts`` (attribute to value).

    Raises:
        ConfigError: If more passages are asked for than there are names (about 1.3 million).
    """
    size = len(places())
    for number in range(-(-passages // size)):
        group = build_group(number, seed)
        for offset, (key, section) in enumerate(places()):
            index = number * size + offset
            if index >= passages:
                return
            entity = group.entities[key]
            title, text, tone, facts = write(entity, section, Random(f"{seed}/prose/{index}"), turn=index)
            metadata = {
                "entity": entity_id(number, key),
                "kind": entity.kind,
                "tone": tone,
                "facts": {attribute: fact.value for attribute, fact in facts.items()},
            }
            yield Passage(passage_id(index), text, title, metadata)
