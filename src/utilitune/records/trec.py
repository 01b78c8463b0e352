"""TREC run files: ``query Q0 passage rank score tag``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from utilitune.errors import DataError
from utilitune.progress import warn
from utilitune.records.atomic import replacing
from utilitune.records.columns import split_columns, to_number
from utilitune.records.lines import iter_lines
from utilitune.records.problem import Findings, Problem, RowError, place
from utilitune.records.run import Run


def read_run(path: Path | str) -> Run:
    """Read a run; gzip is told by content.

    Passages are ordered by score, highest first; ties keep the order of the rank column, then of the lines. A
    score that is not finite stays as it is, comes last, and is warned about.

    Args:
        path: Six columns a line, separated by white space, or by tabs when an id holds a space.

    Returns:
        The run, queries in file order. A query that retrieved nothing has no line, so it is absent.

    Raises:
        DataError: If a line is not as documented or a passage comes twice for a query; lists the first ones
            as file:line.
    """
    findings = Findings()
    found: dict[str, dict[str, tuple[float, float, int]]] = {}
    for line, query_id, passage_id, rank, score in _scan(Path(path), findings):
        ranking = found.setdefault(query_id, {})
        if passage_id in ranking:
            first = ranking[passage_id][2]
            message = f"passage {passage_id!r} comes twice for query {query_id!r}; first on line {first}"
            findings.error(Problem("duplicate", place(Path(path), line), message))
        else:
            ranking[passage_id] = (score, rank, line)
    findings.raise_errors(str(path))
    odd = sum(not math.isfinite(score) for ranking in found.values() for score, _, _ in ranking.values())
    if odd:
        warn(f"{path}: {odd} scores are not finite; those passages are ranked last")
    return Run({query_id: _ordered(ranking) for query_id, ranking in found.items()})


def _scan(path: Path, findings: Findings) -> Iterator[tuple[int, str, str, float, float]]:
    for line, raw in iter_lines(path):
        if not raw.strip():
            continue
        try:
            query_id, _, passage_id, rank, score, _ = split_columns(raw, (6,))
            yield line, query_id, passage_id, to_number(rank, "rank"), to_number(score, "score")
        except RowError as error:
            findings.error(Problem("bad line", place(path, line), f"{error} (query Q0 passage rank score tag)"))


def _ordered(ranking: dict[str, tuple[float, float, int]]) -> list[tuple[str, float]]:
    def key(item: tuple[str, tuple[float, float, int]]) -> tuple[bool, float, float, int]:
        score, rank, line = item[1]
        finite = math.isfinite(score)
        return not finite, -score if finite else 0.0, rank, line

    return [(passage_id, score) for passage_id, (score, _, _) in sorted(ranking.items(), key=key)]


def write_run(path: Path | str, run: Run, tag: str = "utilitune") -> None:
    """Write a run, atomically; scores keep their full precision, so that no ties arise in the file.

    Args:
        path: ``*.trec``; ``.gz`` compresses.
        run: Rankings. A query without passages has no line in this format.
        tag: Last column.

    Raises:
        DataError: If an id or the tag is empty or holds a tab or line end.
    """
    rows = (
        (query_id, "Q0", passage_id, str(rank), repr(float(score)), tag)
        for query_id, ranking in run.items()
        for rank, (passage_id, score) in enumerate(ranking, start=1)
    )
    # White space inside an id needs tabs as separators; a plain file has the customary single spaces.
    spaced = any(len(text.split()) != 1 for q, ranking in run.items() for text in (q, tag, *(p for p, _ in ranking)))
    separator = "\t" if spaced else " "
    with replacing(path) as handle:
        for row in rows:
            for text in (row[0], row[2], tag):
                if not text.strip() or any(mark in text for mark in "\t\n\r"):
                    raise DataError(
                        f"{path}: {text!r} cannot stand in a run file; expected text without tabs and line ends"
                    )
            handle.write((separator.join(row) + "\n").encode("utf-8"))
