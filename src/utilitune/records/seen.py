"""Which ids were met, where, and with what content."""

from __future__ import annotations

from collections.abc import Hashable, KeysView
from pathlib import Path

from utilitune.records.problem import Findings, Problem, place


class Seen:
    """Ids of one file; a repeated one is merged when its content is the same, and an error when it is not.

    Contents are kept as 64-bit hashes, so that a corpus of millions costs ids, not texts.
    """

    def __init__(self, path: Path | None, what: str, findings: Findings) -> None:
        """Start with none; ``what`` is ``"passages"`` or ``"queries"``."""
        self.path, self.what, self.findings = path, what, findings
        self._met: dict[str, tuple[int, int]] = {}

    @property
    def ids(self) -> KeysView[str]:
        """The ids met so far, in file order."""
        return self._met.keys()

    def first(self, key: str, content: Hashable, line: int) -> bool:
        """Tell whether an id is met for the first time; note it otherwise.

        Args:
            key: The id.
            content: All that the id stands for.
            line: Where it is.

        Returns:
            ``False`` for a repetition, merged or refused.
        """
        digest = hash(content)
        line_before, digest_before = self._met.setdefault(key, (line, digest))
        if line_before == line:
            return True
        if digest_before == digest:
            self.findings.counts[f"duplicate {self.what} merged"] += 1
        else:
            file = self.path or Path()
            message = f"id {key!r} again, with other content than on line {line_before}; expected one record an id"
            self.findings.error(Problem("duplicate id", place(file, line), message))
        return False
