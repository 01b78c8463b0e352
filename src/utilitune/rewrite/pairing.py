"""Which of a question's candidates meet in a pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from utilitune.rewrite.candidate import Candidate

Meeting = list[tuple[Candidate, Candidate]]
Pairing = Callable[[Sequence[Candidate]], Meeting]


def ends(ranked: Sequence[Candidate]) -> Meeting:
    """Return best with worst, second best with second worst, and so on; no candidate twice."""
    return list(zip(ranked[: len(ranked) // 2], ranked[::-1], strict=False))


def every(ranked: Sequence[Candidate]) -> Meeting:
    """Return all ordered pairs, the largest difference first."""
    return sorted(combinations(ranked, 2), key=lambda pair: worth(pair[1]) - worth(pair[0]))


def best_against(ranked: Sequence[Candidate]) -> Meeting:
    """Return the best with each of the others, the worst first."""
    return [(ranked[0], other) for other in reversed(ranked[1:])]


PAIRINGS: Mapping[str, Pairing] = {"best-worst": ends, "all": every, "best-few": best_against}
"""From candidates in descending order of utility to (chosen, rejected), the most telling first."""


def worth(row: Candidate) -> float:
    """Return the utility of a candidate that has one."""
    if row.utility is None:
        raise ValueError(f"candidate {row.text!r} of {row.query_id!r} has no utility")
    return row.utility
