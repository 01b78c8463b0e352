"""A preference pair for the rewriter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Message = Mapping[str, str]


@dataclass(frozen=True)
class PreferencePair:
    """One row of ``pairs.jsonl``: TRL's conversational preference form plus where it came from.

    Attributes:
        query_id: The conversational question.
        prompt: Messages that ask for a rewrite.
        chosen: One assistant message: the rewrite whose passages were worth more.
        rejected: One assistant message: the rewrite whose passages were worth less.
        chosen_utility: Utility of the passages that ``chosen`` retrieved.
        rejected_utility: Utility of the passages that ``rejected`` retrieved.
        chosen_passages: Their ids, in rank order.
        rejected_passages: Their ids, in rank order.
    """

    query_id: str
    prompt: tuple[Message, ...]
    chosen: tuple[Message, ...]
    rejected: tuple[Message, ...]
    chosen_utility: float
    rejected_utility: float
    chosen_passages: tuple[str, ...] = ()
    rejected_passages: tuple[str, ...] = ()

    @property
    def margin(self) -> float:
        """``chosen_utility - rejected_utility``, > 0."""
        return self.chosen_utility - self.rejected_utility
