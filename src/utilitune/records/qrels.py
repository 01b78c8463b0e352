"""Judgement files: BEIR's three columns with a header, TREC's four without."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from utilitune.errors import DataError
from utilitune.records.atomic import replacing
from utilitune.records.columns import split_columns, to_number
from utilitune.records.fields import as_id, id_field, number_field
from utilitune.records.lines import iter_lines, magic
from utilitune.records.parquet import MAGIC
from utilitune.records.problem import Findings, Problem, RowError, place
from utilitune.records.rows import scan_rows, write_rows
from utilitune.records.run import Qrels

HEADER = ("query-id", "corpus-id", "score")
KNOWN_HEADERS = (
    {"queryid", "qid", "query", "topicid", "topic"},
    {"corpusid", "docid", "docno", "did", "pid", "documentid", "document", "doc", "passageid", "passage"},
    {"score", "relevance", "rel", "grade", "label", "judgment", "judgement"},
)
"""Names of each column in a header, without case, ``-``, ``_`` and spaces."""
Judgement = tuple[int, str, str, float]


def read_qrels(path: Path | str) -> Qrels:
    """Read judgements; grades stay floats, ids stay strings.

    Args:
        path: BEIR ``query-id corpus-id score`` (header optional, by a known name), TREC ``query 0 passage grade``,
            plain or gzipped; or Parquet with BEIR's columns.

    Returns:
        Grades by query and passage.

    Raises:
        DataError: If a line is not as documented or two lines grade a pair differently; lists the first as
            file:line.
    """
    findings = Findings()
    qrels: Qrels = {}
    for _, query_id, passage_id, grade in scan_qrels(Path(path), findings):
        qrels.setdefault(query_id, {})[passage_id] = grade
    findings.raise_errors(str(path))
    return qrels


def scan_qrels(path: Path, findings: Findings) -> Iterator[Judgement]:
    """Yield judgements one by one, each pair once.

    Args:
        path: As for ``read_qrels``.
        findings: Takes problems and the count of repeated lines.

    Yields:
        Line number, query id, passage id, grade.
    """
    seen: dict[tuple[str, str], tuple[int, float]] = {}
    table = magic(path) == MAGIC
    for judgement in _scan_table(path, findings) if table else _scan_columns(path, findings):
        line, query_id, passage_id, grade = judgement
        first, known = seen.setdefault((query_id, passage_id), (line, grade))
        if first == line:
            yield judgement
        elif known == grade:
            findings.counts["duplicate judgements merged"] += 1
        else:
            message = f"({query_id}, {passage_id}) has grade {grade:g} here and {known:g} on line {first}"
            findings.error(Problem("conflicting judgement", place(path, line), message))


def _scan_columns(path: Path, findings: Findings) -> Iterator[Judgement]:
    started = False
    for line, raw in iter_lines(path):
        if not raw.strip():
            continue
        try:
            columns = split_columns(raw, (3, 4))
            header = not started and _is_header(columns)
            started = True
            if not header:
                yield (
                    line,
                    as_id(columns[0], "query-id"),
                    as_id(columns[-2], "corpus-id"),
                    _grade(columns[-1]),
                )
        except RowError as error:
            message = f"{error} (query-id corpus-id score, as a header too; or TREC: query 0 passage grade)"
            findings.error(Problem("bad line", place(path, line), message))


def _scan_table(path: Path, findings: Findings) -> Iterator[Judgement]:
    for line, row in scan_rows(path):
        if isinstance(row, Problem):
            findings.error(row)
            continue
        try:
            yield line, id_field(row, HEADER[0]), id_field(row, HEADER[1]), number_field(row, HEADER[2])
            retyped = sum(not isinstance(row[name], str) for name in HEADER[:2])
            if retyped:
                findings.counts["judgement ids that were numbers"] += retyped
        except RowError as error:
            findings.error(Problem("bad line", place(path, line), str(error)))


def _is_header(columns: list[str]) -> bool:
    names = [re.sub(r"[-_\s]", "", column).lower() for column in columns]
    return len(names) == 3 and all(name in known for name, known in zip(names, KNOWN_HEADERS, strict=True))


def _grade(text: str) -> float:
    grade = to_number(text, "grade")
    if not math.isfinite(grade):
        raise RowError(f"the grade is {text}; expected a finite number")
    return grade


def write_qrels(path: Path | str, qrels: Qrels) -> None:
    """Write judgements in BEIR's form, atomically; whole grades without a decimal point, as others expect.

    Args:
        path: ``.tsv``, ``.tsv.gz`` or ``.parquet``.
        qrels: Grades by query and passage.

    Raises:
        DataError: If a grade is not finite, or an id is empty or holds a tab or line end.
    """
    rows = [(q, p, float(grade)) for q, grades in qrels.items() for p, grade in grades.items()]
    for query_id, passage_id, grade in rows:
        if not math.isfinite(grade):
            raise DataError(f"{path}: the grade of ({query_id}, {passage_id}) is {grade}; expected a finite number")
        try:
            as_id(query_id, "query-id")
            as_id(passage_id, "corpus-id")
        except RowError as error:
            raise DataError(f"{path}: {error}") from None
    if Path(path).suffix == ".parquet":
        write_rows(path, [dict(zip(HEADER, row, strict=True)) for row in rows])
        return
    with replacing(path) as handle:
        handle.write(("\t".join(HEADER) + "\n").encode())
        for query_id, passage_id, grade in rows:
            number = str(int(grade)) if grade.is_integer() else repr(grade)
            handle.write(f"{query_id}\t{passage_id}\t{number}\n".encode())
