"""Validation of a BEIR folder: counts, lengths and every problem, in one pass."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TypeVar

from utilitune.errors import DataError
from utilitune.records.beir_reading import CorpusReader, JudgementReader, QueryReader
from utilitune.records.folder import find_files
from utilitune.records.passage import Passage
from utilitune.records.problem import Findings, Problem, place
from utilitune.records.query import Query
from utilitune.records.report import Report

T = TypeVar("T")
PERCENTILES = {"p5": 5, "p50": 50, "p95": 95, "max": 100}


def validate_folder(path: Path | str) -> Report:
    """Check a BEIR folder; goes on after every problem, so that all come at once.

    Errors: missing, unreadable or empty files, bad lines (an empty question among them), one id with two
    contents, judgements of unknown queries or passages or that contradict each other, no overlap at all.
    Warnings: empty passages, no judgements, files passed over.

    Args:
        path: The folder.

    Returns:
        The report; ``.ok`` tells whether ``load_dataset`` will accept the folder.

    Raises:
        DataError: If ``path`` is not a folder.
    """
    findings = Findings()
    files = find_files(path, findings)
    corpus, queries = CorpusReader(files.corpus, findings), QueryReader(files.queries, findings)
    passage_words, question_words = array("L"), array("L")
    with_fields = {"history": 0, "answers": 0, "rewrite": 0}

    def take_passage(passage: Passage) -> None:
        passage_words.append(len(passage.full_text.split()))

    def take_query(query: Query) -> None:
        question_words.append(len(query.text.split()))
        for name in with_fields:
            with_fields[name] += bool(getattr(query, name))

    # A file that is missing or cut off would make every judgement dangle: one cause, one error.
    passages_known = _read(corpus, take_passage, findings) and files.corpus
    queries_known = _read(queries, take_query, findings) and files.queries
    judgements, judged = _count_judgements(
        files.qrels,
        findings,
        corpus.seen.ids if passages_known else None,
        queries.seen.ids if queries_known else None,
    )
    counts = {
        "passages": len(passage_words),
        "queries": len(question_words),
        **{f"with {name}": count for name, count in with_fields.items()},
        "judgements": judgements,
        "judged queries": judged,
        **findings.counts,
    }
    lengths = {"passages": quantiles(passage_words), "questions": quantiles(question_words)}
    return Report(str(path), counts, lengths, findings)


def _count_judgements(
    paths: tuple[Path, ...],
    findings: Findings,
    passages: Collection[str] | None,
    queries: Collection[str] | None,
) -> tuple[int, int]:
    try:
        qrels = JudgementReader(paths, findings, passages, queries).qrels()
    except DataError as error:
        _note(error, findings)
        return 0, 0
    return sum(map(len, qrels.values())), len(qrels)


def _read(reader: Iterable[T], take: Callable[[T], None], findings: Findings) -> bool:
    """Read a file to its end; tell whether that worked."""
    try:
        for item in reader:
            take(item)
    except DataError as error:
        _note(error, findings)
        return False
    return True


def _note(error: DataError, findings: Findings) -> None:
    """Note an unreadable file, so that the next ones are still checked."""
    file, _, message = str(error).partition(": ")
    findings.error(Problem("unreadable file", place(Path(file)), message))


def quantiles(values: array[int]) -> dict[str, int]:
    """Return p5, p50, p95 and maximum: the smallest value that at least that share of values does not exceed.

    Args:
        values: Whole numbers.

    Returns:
        By name; all 0 when there are no values.
    """
    ordered = sorted(values)
    # Ceiling of percent * n / 100 in whole numbers, as a position from 1.
    return {
        name: ordered[max(1, -(-percent * len(ordered) // 100)) - 1] if ordered else 0
        for name, percent in PERCENTILES.items()
    }
