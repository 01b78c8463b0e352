"""The report of a validation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from utilitune.records.problem import Findings, Problem


@dataclass(frozen=True)
class Report:
    """What ``validate_folder`` found.

    Attributes:
        folder: The folder.
        counts: Passages, queries, queries with history, answers and rewrites, judgements, and whatever was
            merged, re-typed or kept although odd.
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
    if total > len(problems):
        lines.append(f"  … and {total - len(problems)} more of these kinds")
    return lines
