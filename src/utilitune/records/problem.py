"""Problems of input files: where, what was found, what was expected."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from utilitune.errors import DataError

KEEP = 20  # problems kept per kind; all are counted


class RowError(ValueError):
    """A row is not as documented; the reader adds file and line."""


@dataclass(frozen=True)
class Problem:
    """One finding.

    Attributes:
        kind: What sort of trouble, e.g. ``"bad line"``; findings are counted by kind.
        place: ``file:line``, or the file alone where no one line is at fault.
        message: What was found and what was expected.
    """

    kind: str
    place: str
    message: str

    def __str__(self) -> str:
        """Return ``place: message``."""
        return f"{self.place}: {self.message}"


@dataclass
class Findings:
    """Errors, warnings and counts gathered while reading, so that one pass reports everything.

    Attributes:
        errors: The first ``KEEP`` errors of each kind.
        warnings: The first ``KEEP`` warnings of each kind.
        error_counts: All errors by kind.
        warning_counts: All warnings by kind.
        counts: Everything else that reading counted.
    """

    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    error_counts: Counter[str] = field(default_factory=Counter)
    warning_counts: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def error(self, problem: Problem) -> None:
        """Note an error."""
        self.error_counts[problem.kind] += 1
        if self.error_counts[problem.kind] <= KEEP:
            self.errors.append(problem)

    def warning(self, problem: Problem) -> None:
        """Note a warning."""
        self.warning_counts[problem.kind] += 1
        if self.warning_counts[problem.kind] <= KEEP:
            self.warnings.append(problem)

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.error_counts

    def unlisted(self) -> int:
        """Return how many errors are counted but not kept."""
        return self.error_counts.total() - len(self.errors)

    def raise_errors(self, what: str, hint: str = "") -> None:
        """Raise one error that lists what was found.

        Args:
            what: What was being read, for the first line of the message.
            hint: The way out, for the last line.

        Raises:
            DataError: If there is any error.
        """
        if self.ok:
            return
        total = self.error_counts.total()
        lines = [f"{what}: {total} problem{'s' if total > 1 else ''}"]
        lines += [f"  {problem}" for problem in self.errors[:KEEP]]
        if total > len(lines) - 1:
            lines.append(f"  … and {total - len(lines) + 1} more")
        raise DataError("\n".join([*lines, hint] if hint else lines))


def place(path: Path, line: int | None = None) -> str:
    """Return ``file:line``, or the file alone."""
    return str(path) if line is None else f"{path}:{line}"
