"""Timing several ways of doing one thing in one run: A, B, A, B, so that a drift of the machine meets all alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass
class Timed:
    """One way's times.

    Attributes:
        seconds: One entry a repeat.
        result: What the last repeat returned.
    """

    seconds: list[float] = field(default_factory=list)
    result: Any = None

    @property
    def median(self) -> float:
        """Median seconds."""
        return median(self.seconds)


CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


def alternate(ways: Mapping[str, Callable[[], Any]], repeats: int, clock: str = "wall") -> dict[str, Timed]:
    """Run every way ``repeats`` times, in turn.

    Args:
        ways: Things to time, by name; each returns something that lies on the host, so that a device has finished.
        repeats: At least 1.
        clock: Name in ``CLOCKS``.

    Returns:
        Times and last result of each way.
    """
    now = CLOCKS[clock]
    timed = {name: Timed() for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            gc.collect()
            start = now()
            result = way()
            timed[name].seconds.append(now() - start)
            timed[name].result = result
    return timed
