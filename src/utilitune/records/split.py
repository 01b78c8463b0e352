"""Train and test: whole conversations, told apart by a hash."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from utilitune.errors import DataError
from utilitune.progress import say, warn
from utilitune.records.query import Query


def split_queries(queries: Sequence[Query], *, test: float = 0.3, seed: int = 13) -> tuple[list[Query], list[Query]]:
    """Split queries into train and test, all turns of a conversation on the same side.

    The side depends on (seed, conversation id) alone, so that adding, removing or reordering rows never moves
    others, and a training row of today is never a test row of tomorrow. The share of test *conversations* is
    ``test`` in expectation; with few conversations a side may come out empty, which is warned about.

    Args:
        queries: Queries in any order.
        test: Expected share of test conversations, 0 to 1.
        seed: Another seed draws another split.

    Returns:
        Train and test queries, each in the given order.

    Raises:
        ValueError: If ``test`` is not between 0 and 1.
    """
    if not 0 <= test <= 1:
        raise ValueError(f"test is {test}; expected a share between 0 and 1")
    sides: tuple[list[Query], list[Query]] = ([], [])
    for query in queries:
        sides[position(query.conversation, seed) < test].append(query)
    if 0 < test < 1 and len(queries) > 1 and not (sides[0] and sides[1]):
        units = len({query.conversation for query in queries})
        empty = "test" if sides[0] else "train"
        warn(
            f"the {empty} side of the split is empty: {len(queries)} queries of {units} conversation(s); "
            f"ids up to the last '_' name the conversation"
        )
    return sides


def split_by_field(queries: Sequence[Query]) -> tuple[list[Query], list[Query]] | None:
    """Split queries by their field ``split``, where every one has it.

    Queries whose field says anything but ``train`` or ``test`` are in neither part; a notice counts them by value.

    Args:
        queries: Queries in any order.

    Returns:
        Train and test queries, each in the given order; ``None`` where some query has no such field, with a notice.

    Raises:
        DataError: If every query has the field, and none says ``train`` or ``test``.
    """
    said = [query.metadata.get("split") for query in queries]
    without = sum(value in (None, "") for value in said)
    if without or not said:
        have = "none of the" if without == len(said) else f"only {len(said) - without} of"
        say(f"split: {have} {len(said)} queries have a field 'split'; a hash of the conversation's id splits them")
        return None
    others = Counter(str(value) for value in said if value not in ("train", "test"))
    found = ", ".join(f"{value!r} {count}" for value, count in sorted(others.items()))
    if others.total() == len(said):
        raise DataError(f"the field 'split' of the {len(said)} queries says {found}; expected 'train' or 'test'")
    if others:
        say(f"split: {others.total()} of {len(said)} queries are neither 'train' nor 'test' and left out ({found})")
    train, test = (
        [query for query, value in zip(queries, said, strict=True) if value == part] for part in ("train", "test")
    )
    return train, test


def position(conversation: str, seed: int) -> float:
    """Return where in [0, 1) a conversation falls: the first 53 bits of SHA-256 of seed and id.

    Args:
        conversation: Conversation id.
        seed: Seed of the split.

    Returns:
        A number that is uniform over ids.
    """
    digest = hashlib.sha256(f"{seed}\x00{conversation}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
