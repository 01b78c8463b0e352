"""Values of answers beside those of rankings, in the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from utilitune.evaluation import Row

ANSWER_MEASURES = ("contains", "EM", "F1")


def add_values(rows: dict[str, Row], scored: Sequence[Row]) -> None:
    """Put the values and counts of ``scored`` into the rows of the same names, which keep their block."""
    for row in scored:
        old = rows.get(row.name, row)
        rows[row.name] = replace(old, values={**old.values, **row.values}, counts={**old.counts, **row.counts})
