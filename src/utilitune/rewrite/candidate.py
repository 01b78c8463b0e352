"""A candidate query for a conversational question, and the files that hold them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args, overload

from utilitune.errors import DataError
from utilitune.records import read_rows, write_rows
from utilitune.records.pair import Message

Source = Literal["sample", "greedy", "original", "first-question", "previous-question", "history", "keywords"]


@dataclass(frozen=True)
class Candidate:
    """One row of ``candidates.jsonl``.

    Attributes:
        query_id: The conversational question.
        text: The candidate query, one line.
        source: ``sample`` or ``greedy`` (the model wrote it), or a name of ``CHEAP`` (made from the conversation).
        prompt: The messages that asked for it; the preference pair trains on exactly these.
        utility: What its passages were worth, in units of the typical spread within a query (see
            ``reward_candidates``); ``None`` before the reward, or when no label could be had.
        passages: ``{retriever: passage ids in rank order}``.
        parts: Raw utility before scaling, ``{"retriever/utility": number}``.
    """

    query_id: str
    text: str
    source: Source
    prompt: tuple[Message, ...] = ()
    utility: float | None = None
    passages: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    parts: Mapping[str, float] = field(default_factory=dict, hash=False)

    def as_row(self) -> dict[str, Any]:
        """Return the JSON-ready row; a missing utility is left out."""
        row: dict[str, Any] = {"query_id": self.query_id, "text": self.text, "source": self.source}
        row["prompt"] = [dict(message) for message in self.prompt]
        if self.utility is not None and math.isfinite(self.utility):
            row["utility"] = self.utility
        if self.passages:
            row["passages"] = {name: list(ids) for name, ids in self.passages.items()}
        if self.parts:
            row["parts"] = dict(self.parts)
        return row


class Candidates(Sequence[Candidate]):
    """Candidates with the counts of their making; a sequence of rows, grouped by query."""

    def __init__(self, rows: Iterable[Candidate], counts: Mapping[str, int] | None = None) -> None:
        """Keep ``rows`` as given; ``counts`` says what was cleaned away, merged or missing."""
        self.rows = list(rows)
        self.counts: dict[str, int] = dict(counts or {})

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> list[Candidate]: ...
    def __getitem__(self, index: int | slice) -> Candidate | list[Candidate]:
        """Return a row, or rows for a slice."""
        return self.rows[index]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Candidate]:
        """Iterate over the rows."""
        return iter(self.rows)


def by_query(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    """Group candidates by query id, both in order of appearance."""
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.query_id, []).append(candidate)
    return groups


def write_candidates(path: Path | str, candidates: Iterable[Candidate]) -> None:
    """Write ``candidates.jsonl`` (or Parquet, ``.gz``, by extension), atomically.

    Args:
        path: File to write.
        candidates: Rows in order.
    """
    write_rows(path, (candidate.as_row() for candidate in candidates))


def read_candidates(path: Path | str) -> Candidates:
    """Read what ``write_candidates`` wrote.

    Args:
        path: File to read.

    Returns:
        The rows in file order.

    Raises:
        DataError: For a row without ``query_id``, ``text`` or a known ``source``, naming file:line.
    """
    rows = []
    for number, row in read_rows(path):
        try:
            rows.append(_from_row(row))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"{path}:{number}: not a candidate ({error!r}); expected query_id, text and source "
                f"(one of {', '.join(get_args(Source))})"
            ) from error
    return Candidates(rows)


def _from_row(row: Mapping[str, Any]) -> Candidate:
    source = row.get("source", "sample")
    if source not in get_args(Source):
        raise ValueError(f"unknown source {source!r}")
    utility = row.get("utility")
    return Candidate(
        query_id=str(row["query_id"]),
        text=str(row["text"]),
        source=cast("Source", source),
        prompt=tuple(dict(message) for message in row.get("prompt") or ()),
        utility=None if utility is None else float(utility),
        passages={name: tuple(map(str, ids)) for name, ids in (row.get("passages") or {}).items() if ids is not None},
        # Parquet fills absent keys of a struct with nulls.
        parts={name: float(value) for name, value in (row.get("parts") or {}).items() if value is not None},
    )
