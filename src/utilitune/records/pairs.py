"""Preference pair files: TRL's conversational rows plus utilities and passages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from utilitune.records.fields import id_field, ids_field, messages_field, number_field
from utilitune.records.pair import PreferencePair
from utilitune.records.problem import RowError
from utilitune.records.rows import read_records, write_rows


def read_pairs(path: Path | str) -> list[PreferencePair]:
    """Read preference pairs.

    Args:
        path: JSONL, gzipped JSONL or Parquet.

    Returns:
        Pairs in file order.

    Raises:
        DataError: If a row is not as documented, both sides are equal, or the margin is not positive; lists
            the first ones as file:line.
    """
    return [pair for _, pair in read_records(path, parse_pair)]


def parse_pair(row: Mapping[str, Any]) -> PreferencePair:
    """Make a pair of a row; ``margin`` is worked out from the utilities, whatever the row says.

    Args:
        row: The row.

    Returns:
        The pair.

    Raises:
        RowError: If a field is missing or of the wrong kind, both sides are equal, or the margin is not
            positive.
    """
    pair = PreferencePair(
        query_id=id_field(row, "query_id"),
        prompt=messages_field(row, "prompt"),
        chosen=messages_field(row, "chosen"),
        rejected=messages_field(row, "rejected"),
        chosen_utility=number_field(row, "chosen_utility"),
        rejected_utility=number_field(row, "rejected_utility"),
        chosen_passages=ids_field(row, "chosen_passages", optional=True),
        rejected_passages=ids_field(row, "rejected_passages", optional=True),
    )
    if pair.chosen == pair.rejected:
        raise RowError("'chosen' and 'rejected' are the same; such a pair teaches nothing")
    if not pair.margin > 0:
        raise RowError(
            f"'chosen_utility' is {pair.chosen_utility:g}, 'rejected_utility' {pair.rejected_utility:g}; "
            f"expected the chosen side to be worth more"
        )
    return pair


def write_pairs(path: Path | str, pairs: Iterable[PreferencePair]) -> int:
    """Write preference pairs, atomically.

    Args:
        path: JSONL, ``.gz`` or Parquet.
        pairs: Pairs.

    Returns:
        The number of rows.
    """
    return write_rows(path, (pair_row(pair) for pair in pairs))


def pair_row(pair: PreferencePair) -> dict[str, Any]:
    """Return a pair's row: TRL's three columns first.

    Args:
        pair: The pair.

    Returns:
        A JSON-ready row.
    """
    return {
        "prompt": [dict(message) for message in pair.prompt],
        "chosen": [dict(message) for message in pair.chosen],
        "rejected": [dict(message) for message in pair.rejected],
        "query_id": pair.query_id,
        "chosen_utility": float(pair.chosen_utility),
        "rejected_utility": float(pair.rejected_utility),
        "margin": float(pair.margin),
        "chosen_passages": list(pair.chosen_passages),
        "rejected_passages": list(pair.rejected_passages),
    }
