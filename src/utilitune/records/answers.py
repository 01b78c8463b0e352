"""Answer files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from utilitune.records.answer import Answer
from utilitune.records.fields import id_field, ids_field, optional_number, required, shown
from utilitune.records.problem import RowError
from utilitune.records.rows import read_records, write_rows


def read_answers(path: Path | str) -> list[Answer]:
    """Read answers.

    Args:
        path: JSONL, gzipped JSONL or Parquet.

    Returns:
        Answers in file order.

    Raises:
        DataError: If a row is not as documented; lists the first ones as file:line.
    """
    return [answer for _, answer in read_records(path, parse_answer)]


def parse_answer(row: Mapping[str, Any]) -> Answer:
    """Make an answer of a row; an empty ``answer`` is an answer.

    Args:
        row: The row.

    Returns:
        The answer.

    Raises:
        RowError: If a field is missing or of the wrong kind.
    """
    text, abstained = required(row, "answer"), required(row, "abstained")
    if not isinstance(text, str):
        raise RowError(f"'answer' is {shown(text)}; expected a string")
    if not isinstance(abstained, bool):
        raise RowError(f"'abstained' is {shown(abstained)}; expected true or false")
    cut = row.get("cut") or False
    if not isinstance(cut, bool):
        raise RowError(f"'cut' is {shown(cut)}; expected true or false")
    return Answer(
        query_id=id_field(row, "query_id"),
        passage_ids=ids_field(row, "passage_ids"),
        answer=text,
        abstained=abstained,
        logprob_mean=optional_number(row, "logprob_mean"),
        cut=cut,
    )


def write_answers(path: Path | str, answers: Iterable[Answer]) -> int:
    """Write answers, atomically.

    Args:
        path: JSONL, ``.gz`` or Parquet.
        answers: Answers.

    Returns:
        The number of rows.
    """
    return write_rows(path, ({**asdict(answer), "passage_ids": list(answer.passage_ids)} for answer in answers))
