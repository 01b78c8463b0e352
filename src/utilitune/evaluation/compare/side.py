"""One side of a change: what a system found and said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from utilitune.records.run import Run


@dataclass(frozen=True)
class Side:
    """A system's rankings and texts, as far as they are known.

    Attributes:
        name: System name, as in the evaluation.
        run: Its ranking, ``None`` where unknown.
        rewrites: Search texts by query id, where the question was rewritten.
        answers: Answer texts by query id.
    """

    name: str
    run: Run | None = None
    rewrites: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
