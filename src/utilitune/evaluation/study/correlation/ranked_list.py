"""One ranked list as a metric sees it: relevance, utilities, single answers, and what the generator made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RankedList:
    """The first ``k`` passages that one system found for one question.

    Attributes:
        query_id: The question.
        system: What found the passages.
        k: Passages asked for; there may be fewer.
        passage_ids: Passages in rank order.
        relevant: Whether each is relevant.
        utilities: ``u`` of each, in [0, 1]; ``None`` where there is none.
        gains: 1.0 where the answer from this passage alone is right, else 0.0 (eRAG); ``None`` where unknown.
        others: Further utilities by name, one a passage.
        right: Whether the answer from the list is right.
        abstained: Whether the generator abstained; such an answer is not right.
        values: Metric -> number; a metric that has none for this list is not there.
    """

    query_id: str
    system: str
    k: int
    passage_ids: tuple[str, ...]
    relevant: tuple[bool, ...]
    utilities: tuple[float | None, ...]
    gains: tuple[float | None, ...]
    others: Mapping[str, tuple[float | None, ...]]
    right: bool
    abstained: bool
    values: dict[str, float] = field(default_factory=dict, compare=False)
