"""What every retriever offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self

from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Run


class Retriever(Protocol):
    """A searchable corpus."""

    @classmethod
    def build(cls, corpus: Iterable[Passage]) -> Self:
        """Index ``corpus``; retriever-specific settings are keyword arguments of the class's own ``build``."""
        ...

    def search(self, queries: Sequence[Query], k: int = 10) -> Run:
        """Return at most ``k`` passages a query by ``Query.text``; an unmatched query gets an empty list."""
        ...

    def search_texts(self, texts: Mapping[str, str], k: int = 10) -> Run:
        """Search for free texts, ``{key: text}``; the run is keyed like ``texts``."""
        ...

    def save(self, folder: Path | str) -> None:
        """Write an index folder with its ``manifest.json``."""
        ...

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read an index folder, checking its manifest."""
        ...
