"""A section of a report: a small table of texts beside the tables of measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Section = dict[str, Any]
"""``title``, ``head`` (one text a column), ``lines`` (each as long as ``head``), ``notes``; nothing escaped."""


def section(title: str, head: Sequence[str], lines: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> Section:
    """Return a section.

    Args:
        title: Heading.
        head: Headings of the columns.
        lines: The rows, each as long as ``head``.
        notes: Sentences underneath.

    Returns:
        The section.
    """
    return {"title": title, "head": list(head), "lines": [list(line) for line in lines], "notes": list(notes)}
