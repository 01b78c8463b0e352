"""The share of rows that went wrong, against what is allowed."""

from __future__ import annotations

from collections.abc import Mapping

from utilitune.errors import ThresholdError


def check_share(counts: Mapping[str, int], kind: str, total: int, limit: float, what: str) -> None:
    """Refuse to go on when too many rows were truncated, skipped, failed or fell back.

    Args:
        counts: Rows by kind of trouble.
        kind: The kind to check; a kind that was never counted is 0.
        total: All rows, good ones included.
        limit: Largest share allowed, 0 to 1.
        what: What the rows are, e.g. ``"label: requests"``.

    Raises:
        ThresholdError: If ``counts[kind] / total > limit``; a count without rows is over any limit.
        ValueError: If ``limit`` is not between 0 and 1.
    """
    if not 0 <= limit <= 1:
        raise ValueError(f"limit is {limit}; expected a share between 0 and 1")
    count = counts.get(kind, 0)
    if count > limit * total:
        share = f" ({count / total:.1%})" if total else ""
        raise ThresholdError(
            f"{what}: {count} of {total}{share} {kind}, and at most {limit:.1%} are allowed; "
            f"see the counts for the cause, or raise the limit if that many are expected"
        )
