"""Two answers to one question, and which of them there are among several systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.answer_accuracy import by_query
from utilitune.records.answer import Answer
from utilitune.records.query import Query, Turn


@dataclass(frozen=True)
class Comparison:
    """What a judge is shown, in either order.

    Attributes:
        query_id: The question's id; unique for a pair of systems.
        question: Its text.
        system_a: Name of the first system.
        system_b: Name of the second.
        answer_a: Its answer.
        answer_b: Its answer.
        history: Earlier turns, oldest first.
    """

    query_id: str
    question: str
    system_a: str
    system_b: str
    answer_a: str
    answer_b: str
    history: tuple[Turn, ...] = ()


@dataclass(frozen=True)
class Compared:
    """The comparisons of several systems, and what could not be compared.

    Attributes:
        comparisons: By pair of systems, then in the queries' order.
        missing: Questions that a system lacks and another has, by system.
        unknown: Answers to questions that are not among the queries (another split, or over a limit), by system.
        identical: Comparisons whose two answers are the same text.
    """

    comparisons: list[Comparison]
    missing: dict[str, int]
    unknown: dict[str, int]
    identical: int


def compare_systems(
    systems: Mapping[str, Sequence[Answer]], queries: Sequence[Query], *, against: str | None = None
) -> Compared:
    """Pair the answers of all systems by question id, never by position.

    Args:
        systems: Answers by system name, two systems or more.
        queries: The questions.
        against: Compare every system with this one alone; else every pair.

    Returns:
        Comparisons of the questions that both systems of a pair answered, and counts.

    Raises:
        ConfigError: For fewer than two systems, or an unknown name.
        DataError: If a system has two answers to a question, or a pair shares no question.
    """
    if len(systems) < 2:
        raise ConfigError(f"{len(systems)} system(s) given; a win rate compares two or more")
    if against is not None and against not in systems:
        raise ConfigError(f"no system is named {against!r}; systems: {', '.join(systems)}")
    known = {query.id: query for query in queries}
    said = {name: by_query(answers) for name, answers in systems.items()}
    asked = {query_id for answers in said.values() for query_id in answers if query_id in known}
    comparisons: list[Comparison] = []
    for first, second in combinations(systems, 2):
        if against not in (None, first, second):
            continue
        shared = [query for query in known.values() if query.id in said[first] and query.id in said[second]]
        if not shared:
            raise DataError(
                f"{first} and {second} have no question in common that is in the data: {first} answers "
                f"{_some(said[first])}, {second} {_some(said[second])}, the data has {_some(known)}"
            )
        for query in shared:
            one, other = said[first][query.id].answer, said[second][query.id].answer
            comparisons.append(Comparison(query.id, query.text, first, second, one, other, tuple(query.history)))
    return Compared(
        comparisons,
        missing={name: len(asked - answers.keys()) for name, answers in said.items()},
        unknown={name: len(answers.keys() - known.keys()) for name, answers in said.items()},
        identical=sum(each.answer_a.split() == each.answer_b.split() for each in comparisons),
    )


def _some(ids: Mapping[str, object]) -> str:
    return ", ".join(map(repr, list(ids)[:3])) or "nothing"
