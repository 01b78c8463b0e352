"""Names that never repeat: a bijection from indices to invented names.

A stem is onset + vowel + medial; an ending makes it the name of a town, a river, a family or a thing. Onsets and
medials hold consonants only and vowels vowels only, so a name has one reading, and no two (phonology, category)
pairs share a medial+ending tail: different indices give different names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import gcd, prod
from typing import Any

import yaml

from utilitune.errors import ConfigError

CATEGORIES = ("town", "river", "surname", "thing")


@cache
def package_yaml(name: str) -> Any:
    """Return a parsed YAML file of this package, e.g. ``"frames/town.yaml"``; shared, so never change it."""
    text = files("utilitune.sample").joinpath(name).read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@dataclass(frozen=True)
class Phonology:
    """Sound inventory of one invented language.

    Attributes:
        name: Its key in ``names.yaml``.
        stems: Onsets, vowels and medials.
        endings: Endings by category (``CATEGORIES``).
        given: First names by gender, ``"female"`` and ``"male"``.
        far: Places abroad; they are values, never entities.
    """

    name: str
    stems: tuple[tuple[str, ...], ...]
    endings: Mapping[str, tuple[str, ...]]
    given: Mapping[str, tuple[str, ...]]
    far: tuple[str, ...]

    @property
    def capacity(self) -> int:
        """Number of different stems."""
        return prod(len(part) for part in self.stems)

    def stem(self, index: int, salt: int) -> str:
        """Return stem ``index``; ``salt`` picks one of many orders, each a bijection of the index range."""
        return "".join(spread(index, salt, self.stems, what=f"stems of {self.name}"))

    def name_of(self, category: str, index: int, salt: int) -> str:
        """Return name ``index`` of a category; at most ``capacity * len(endings)`` of them."""
        parts = (*self.stems, self.endings[category])
        return "".join(spread(index, salt, parts, what=f"{category} names of {self.name}"))


def spread(index: int, salt: int, parts: Sequence[Sequence[str]], *, what: str) -> list[str]:
    """Pick one element of each part: a bijection from ``range(prod(len))`` that looks random.

    The index goes through ``(a * index + salt) mod n`` with ``a`` coprime to ``n``, then is read as mixed-radix digits.

    Args:
        index: Which combination, from 0.
        salt: Any integer; another salt is another order.
        parts: The alternatives at each place.
        what: What runs out when the index is too high, for the message.

    Returns:
        One element a part.

    Raises:
        ConfigError: If there are not that many combinations.
    """
    size = prod(len(part) for part in parts)
    if index >= size:
        raise ConfigError(f"the sample world ran out of {what}: {size} exist; ask for fewer passages")
    value = (_step(size) * index + salt) % size
    chosen = []
    for part in parts:
        value, digit = divmod(value, len(part))
        chosen.append(part[digit])
    return chosen


@cache
def _step(size: int) -> int:
    """A number coprime to ``size`` near its golden section, so that consecutive indices land far apart."""
    step = int(size * 0.6180339887) | 1
    while gcd(step, size) != 1:
        step += 2
    return step


@cache
def phonologies() -> tuple[Phonology, ...]:
    """Return the invented languages, in file order."""
    return tuple(
        Phonology(
            name=name,
            stems=tuple(tuple(row[part]) for part in ("onsets", "vowels", "medials")),
            endings={category: tuple(row[category]) for category in CATEGORIES},
            given={"female": tuple(row["female"]), "male": tuple(row["male"])},
            far=tuple(row["far"]),
        )
        for name, row in package_yaml("names.yaml").items()
    )
