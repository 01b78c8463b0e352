"""Labels as a table: which label sets are meant, and the one number of each (query, passage, label set)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from utilitune.errors import ConfigError, DataError
from utilitune.records import Labels

LabelTable = dict[str, dict[str, dict[str, float]]]
"""Query id -> passage id -> label set -> utility."""


def choose_label_sets(labels: Labels, utilities: Sequence[str] | None) -> list[str]:
    """Return the label sets that the names mean.

    Args:
        labels: Utility labels.
        utilities: Utility names, or whole label sets (``name@hash``) where a name is ambiguous; all of the
            labels when ``None``.

    Returns:
        Label sets, each once, in the order of the names.

    Raises:
        ConfigError: If ``utilities`` is empty.
        DataError: If a name is unknown or ambiguous, or there are no labels.
    """
    known: dict[str, list[str]] = {}
    for row in labels:
        sets = known.setdefault(row.name, [])
        if row.label_set not in sets:
            sets.append(row.label_set)
    listed = ", ".join(label_set for sets in known.values() for label_set in sets) or "none"
    if utilities is not None and not utilities:
        raise ConfigError(f"utilities is empty; these labels hold: {listed}")
    chosen: list[str] = []
    for name in known if utilities is None else utilities:
        sets = known.get(name) or [name for sets in known.values() if name in sets]
        if not sets:
            raise DataError(f"no labels of utility {name!r}; these labels hold: {listed}")
        if len(sets) > 1:
            raise DataError(
                f"utility {name!r} was labelled in {len(sets)} ways ({', '.join(sets)}): another generator, "
                "prompt or parameters. Name one of these label sets"
            )
        if sets[0] not in chosen:
            chosen.append(sets[0])
    if not chosen:
        raise DataError("the labels are empty: nothing to train on; run the labelling step first")
    return chosen


def read_table(labels: Labels, chosen: Sequence[str], drops: Counter[str]) -> LabelTable:
    """Return the usable numbers: of single passages, status ``ok``, finite.

    Args:
        labels: Utility labels.
        chosen: Label sets to read.
        drops: Counts the rows left out, by kind.

    Returns:
        The table, in row order.
    """
    wanted = set(chosen)
    table: LabelTable = {}
    for row in labels:
        if row.label_set not in wanted:
            drops["rows of other utilities"] += 1
        elif len(row.passage_ids) != 1:
            drops["rows of passage sets"] += 1
        elif row.status != "ok" or row.utility is None:
            drops[f"rows {row.status if row.status != 'ok' else 'without a number'}"] += 1
        elif not math.isfinite(row.utility):
            drops["rows not finite"] += 1
        else:
            cell = table.setdefault(row.query_id, {}).setdefault(row.passage_ids[0], {})
            if row.label_set in cell:
                drops["rows repeated"] += 1
            cell[row.label_set] = float(row.utility)
    return table
