"""What two answers are compared by."""

from __future__ import annotations

from collections.abc import Sequence

from utilitune.errors import ConfigError

OVERALL = "Overall"

CRITERIA: dict[str, str] = {
    "Comprehensiveness": "how much detail the answer gives to cover all parts of the question",
    "Empowerment": "how well the answer helps the reader to understand the topic and to judge for themselves",
    "Diversity": "how varied the answer is in the points of view and insights that it offers",
    OVERALL: "which answer is the better one, all in all",
}
"""The four dimensions of HiRAG's evaluation (arXiv 2503.10150), described in our words."""


def named_criteria(names: Sequence[str] | None = None) -> dict[str, str]:
    """Return criteria by name.

    Args:
        names: Names in any case; all four when ``None``.

    Returns:
        Name -> description, in the order asked for.

    Raises:
        ConfigError: For an unknown name, or none at all.
    """
    known = {name.casefold(): name for name in CRITERIA}
    wanted = list(CRITERIA) if names is None else list(names)
    unknown = [name for name in wanted if name.casefold() not in known]
    if unknown or not wanted:
        found = f"unknown dimension {unknown[0]!r}" if unknown else "no dimension given"
        raise ConfigError(f"{found}; known: {', '.join(CRITERIA)}")
    return {known[name.casefold()]: CRITERIA[known[name.casefold()]] for name in wanted}
