"""Validation of a BEIR folder: counts, lengths and every problem, in one pass."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from utilitune.errors import DataError
from utilitune.records.beir_reading import CorpusReader, JudgementReader, QueryReader
from utilitune.records.folder import FolderFiles, find_files
from utilitune.records.problem import Findings, Problem, place

QUANTILES = {"p5": 0.05, "p50": 0.5, "p95": 0.95, "max": 1.0}


@dataclass(frozen=True)
class Report:
    """What ``validate_folder`` found.

    Attributes:
        folder: The folder.
        counts: Passages, queries, queries with history, answers and rewrites, judgements, and whatever was merged,
            re-typed or kept although odd.
        lengths: Words of ``passages`` (title and text) and ``questions``: quantiles ``p5 p50 p95 max``.
        findings: Errors and warnings.
    """

    folder: str
    counts: dict[str, int]
    lengths: dict[str, dict[str, int]]
    findings: Findings = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether the folder has no error (warnings are allowed)."""
        return self.findings.ok

    @property
    def errors(self) -> list[Problem]:
        """The first errors of each kind."""
        return self.findings.errors

    @property
    def warnings(self) -> list[Problem]:
        """The first warnings of each kind."""
        return self.findings.warnings

    def as_dict(self) -> dict[str, Any]:
        """Return everything, JSON-ready."""
        return {
            "folder": self.folder,
            "ok": self.ok,
            "counts": self.counts,
            "lengths": self.lengths,
            "errors": dict(self.findings.error_counts),
            "warnings": dict(self.findings.warning_counts),
            "problems": [{"place": problem.place, "message": problem.message} for problem in self.errors],
        }

    def text(self) -> str:
        """Return the report as plain text."""
        width = max(len(kind) for kind in (*self.counts, *self.lengths)) + 2
        lines = [self.folder, *(f"  {kind:<{width}}{count:>10,}" for kind, count in self.counts.items())]
        for what, quantiles in self.lengths.items():
            numbers = "  ".join(f"{name} {value}" for name, value in quantiles.items())
            lines.append(f"  words in {what}: {numbers}")
        lines += _section("warning", self.warnings, self.findings.warning_counts.total())
        lines += _section("error", self.errors, self.findings.error_counts.total())
        lines.append("ok" if self.ok else "not ok: see the errors above")
        return "\n".join(lines)


def _section(what: str, problems: list[Problem], total: int) -> list[str]:
    if not total:
        return []
    lines = [f"{total} {what}{'s' if total > 1 else ''}", *(f"  {problem}" for problem in problems)]
    return [*lines, f"  … and {total - len(problems)} more of these kinds"] if total > len(problems) else lines


def validate_folder(path: Path | str) -> Report:
    """Check a BEIR folder; goes on after every problem, so that all come at once.

    Errors: missing or unreadable files, bad lines, empty questions, one id with two contents, judgements of unknown
    queries or passages, no overlap at all. Warnings: empty passages, files passed over.

    Args:
        path: The folder.

    Returns:
        The report; ``.ok`` tells whether ``load_dataset`` will accept the folder.

    Raises:
        DataError: If ``path`` is not a folder.
    """
    findings = Findings()
    files = find_files(path, findings)
    counts = dict.fromkeys(
        ("passages", "queries", "with history", "with answers", "with rewrite", "judgements", "judged queries"), 0
    )
    corpus, queries = CorpusReader(files.corpus, findings), QueryReader(files.queries, findings)
    passage_words, question_words = array("L"), array("L")
    with _gathered(findings):
        for passage in corpus:
            passage_words.append(len(passage.full_text.split()))
    with _gathered(findings):
        for query in queries:
            question_words.append(len(query.text.split()))
            counts["with history"] += bool(query.history)
            counts["with answers"] += bool(query.answers)
            counts["with rewrite"] += query.rewrite is not None
    counts["passages"], counts["queries"] = len(passage_words), len(question_words)
    _count_judgements(files, corpus, queries, findings, counts)
    lengths = {"passages": quantiles(passage_words), "questions": quantiles(question_words)}
    return Report(str(path), {**counts, **findings.counts}, lengths, findings)


def _count_judgements(
    files: FolderFiles, corpus: CorpusReader, queries: QueryReader, findings: Findings, counts: dict[str, int]
) -> None:
    with _gathered(findings):
        qrels = JudgementReader(files.qrels, findings, corpus.seen.ids, queries.seen.ids).qrels()
        counts["judgements"] = sum(map(len, qrels.values()))
        counts["judged queries"] = len(qrels)


@contextmanager
def _gathered(findings: Findings) -> Iterator[None]:
    """Note an unreadable file and go on with the next."""
    try:
        yield
    except DataError as error:
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
    last = len(ordered) - 1
    return {
        name: ordered[min(last, max(0, -int(-share * len(ordered) // 1) - 1))] if ordered else 0
        for name, share in QUANTILES.items()
    }
