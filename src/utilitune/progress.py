"""Progress on anything over a few seconds: a bar on a terminal, plain lines elsewhere, silent under ``--quiet``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

PLAIN_EVERY_SECONDS = 15.0


@dataclass
class _Switch:
    quiet: bool = False


_switch = _Switch()


def set_quiet(quiet: bool) -> None:
    """Silence progress and notices for this process (``--quiet``)."""
    _switch.quiet = quiet


def say(message: str) -> None:
    """Print one notice to stderr unless quiet. Results go to stdout, notices and progress to stderr."""
    if not _switch.quiet:
        sys.stderr.write(message + "\n")
        sys.stderr.flush()


def warn(message: str) -> None:
    """Print one warning to stderr, also under ``--quiet``: silence is for progress, not for trouble."""
    sys.stderr.write(f"warning: {message}\n")
    sys.stderr.flush()


@dataclass
class Bar:
    """Handle of one running bar."""

    what: str
    total: int
    unit: str
    done: int = 0
    free: int = 0
    _started: float = field(default_factory=time.monotonic)
    _said: float = 0.0
    _rich: Progress | None = None
    _task: TaskID | None = None

    def advance(self, count: int = 1, *, free: bool = False) -> None:
        """Count ``count`` more units as done; ``free`` ones cost nothing (a resumed run) and tell no rate."""
        self.done += count
        self.free += count if free else 0
        if self._rich is not None and self._task is not None:
            self._rich.update(self._task, advance=count, rate=f"{self.rate:.1f} {self.unit}/s, {self.left}")
        elif not _switch.quiet:
            self._plain()

    @property
    def rate(self) -> float:
        """Units a second since the start, free ones left out."""
        return (self.done - self.free) / max(time.monotonic() - self._started, 1e-9)

    @property
    def left(self) -> str:
        """The time left at that rate, in words."""
        return f"{(self.total - self.done) / self.rate:.0f} s left" if self.rate else "time left unknown"

    def _plain(self) -> None:
        elapsed = time.monotonic() - self._started
        finished = self.done >= self.total
        if elapsed - self._said < PLAIN_EVERY_SECONDS and not (finished and elapsed > 2):
            return
        self._said = elapsed
        say(
            f"{self.what}: {self.done}/{self.total} {self.unit}, {self.rate:.1f}/s, "
            + (f"{elapsed:.0f} s in all" if finished else self.left)
        )


@contextmanager
def progress(what: str, total: int, unit: str = "rows") -> Iterator[Bar]:
    """Show progress of ``total`` units of work.

    Args:
        what: What is being done, e.g. ``"label"``.
        total: Number of units.
        unit: Name of a unit, for the rate.

    Yields:
        A handle; call ``advance`` on it.
    """
    console = Console(stderr=True)
    if _switch.quiet or not console.is_terminal:
        yield Bar(what, total, unit)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as rich:
        bar = Bar(what, total, unit, _rich=rich)
        bar._task = rich.add_task(what, total=total, rate="")
        yield bar


@contextmanager
def hushed() -> Iterator[None]:
    """Silence progress and notices for a while: for work that another bar counts. Warnings stay."""
    before = _switch.quiet
    _switch.quiet = True
    try:
        yield
    finally:
        _switch.quiet = before
