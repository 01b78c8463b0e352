"""Names of measures: one grammar for the command line, recipes and reports."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from utilitune.errors import ConfigError

Kind = Literal["classical", "utility", "answer"]
Cutoff = Literal["needed", "allowed", "none"]


@dataclass(frozen=True)
class Family:
    """A measure before its cut-off is known.

    Attributes:
        kind: What it is computed from: judgements, utilities, or answers.
        cutoff: Whether the name carries ``@k``.
        meaning: One line for help texts.
    """

    kind: Kind
    cutoff: Cutoff
    meaning: str


FAMILIES: dict[str, Family] = {
    "RR": Family("classical", "allowed", "reciprocal rank of the first relevant passage"),
    "nDCG": Family("classical", "allowed", "discounted gain (linear gains, log2 discount) over the ideal one"),
    "R": Family("classical", "needed", "share of the relevant passages among the first k"),
    "P": Family("classical", "needed", "share of relevant passages among the first k"),
    "Success": Family("classical", "needed", "1 when a relevant passage is among the first k"),
    "AP": Family("classical", "allowed", "average precision"),
    "UDCG": Family("utility", "needed", "utility and distraction of the first k passages, sigmoid form"),
    "rawUDCG": Family("utility", "needed", "the same, before the sigmoid"),
    "distraction": Family("utility", "needed", "utility of the irrelevant among the first k passages; less is better"),
    "hardDistractors": Family("utility", "needed", "share of irrelevant passages of u > 0.8; less is better"),
    "EM": Family("answer", "none", "normalised answer equals a gold answer"),
    "F1": Family("answer", "none", "token overlap with the best gold answer"),
    "contains": Family("answer", "none", "a gold answer occurs in the answer, on word boundaries"),
}
ALIASES = {"MRR": "RR", "NDCG": "nDCG", "Recall": "R", "MAP": "AP", "accuracy": "contains"}
LESS_IS_BETTER = ("distraction", "hardDistractors")
BINARY = ("RR", "R", "P", "Success", "AP")

_NAME = re.compile(r"([A-Za-z0-9]+)(?:@([1-9][0-9]*))?")


@dataclass(frozen=True)
class Measure:
    """One measure as asked for.

    Attributes:
        name: The name as written by the user; keys of results and headings of tables carry it.
        family: Key of ``FAMILIES``.
        cutoff: Ranks that count, ``None`` for the whole list.
    """

    name: str
    family: str
    cutoff: int | None = None

    @property
    def kind(self) -> Kind:
        """What the measure is computed from."""
        return FAMILIES[self.family].kind


def known_measures() -> str:
    """Return the known names, for error messages and help."""
    suffix = {"needed": "@k", "allowed": "[@k]", "none": ""}
    names = [name + suffix[family.cutoff] for name, family in FAMILIES.items()]
    return ", ".join(names) + "; aliases " + ", ".join(f"{alias}={name}" for alias, name in ALIASES.items())


def parse_measure(name: str) -> Measure:
    """Read a name such as ``"MRR@10"``, ``"AP"`` or ``"contains"``.

    Args:
        name: The name, spelled as in ``known_measures()``.

    Returns:
        The measure.

    Raises:
        ConfigError: For an unknown name, or a cut-off that is missing or out of place.
    """
    matched = _NAME.fullmatch(name.strip())
    stem = matched[1] if matched else name
    family = ALIASES.get(stem, stem)
    if matched is None or family not in FAMILIES:
        raise ConfigError(f"unknown measure {name!r}; known: {known_measures()}")
    rule = FAMILIES[family].cutoff
    if rule == "needed" and matched[2] is None:
        raise ConfigError(f"measure {name!r} needs a cut-off: write {stem}@10")
    if rule == "none" and matched[2] is not None:
        raise ConfigError(f"measure {name!r} takes no cut-off: write {stem}")
    return Measure(name.strip(), family, int(matched[2]) if matched[2] else None)


def parse_measures(names: Iterable[str]) -> list[Measure]:
    """Read several names, repeats removed, all problems at once.

    Args:
        names: The names.

    Returns:
        One measure a name, in order.

    Raises:
        ConfigError: Listing everything that is wrong, or when there is no name.
    """
    if isinstance(names, str):
        names = [names]
    measures: dict[str, Measure] = {}
    problems: list[str] = []
    for name in names:
        try:
            measures.setdefault(name.strip(), parse_measure(name))
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(problems))
    if not measures:
        raise ConfigError(f"no measure was named; known: {known_measures()}")
    return list(measures.values())
