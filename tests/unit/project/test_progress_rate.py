"""The rate of a bar: what a resumed run finds done already says nothing about the time that is left."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from utilitune import progress as module
from utilitune.progress import progress


@pytest.fixture
def clock(monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(module, "PLAIN_EVERY_SECONDS", 1.0)
    return seconds


def test_free_units_are_done_but_not_in_the_rate(clock, capsys):
    with progress("label", 100, "labels") as bar:
        bar._started = 0.0
        bar.advance(80, free=True)
        clock[0] = 10.0
        bar.advance(10)
        assert bar.done == 90
        assert bar.rate == pytest.approx(1.0)
    assert re.search(r"label: 90/100 labels, 1\.0/s, 10 s left", capsys.readouterr().err)


def test_nothing_but_free_units_leaves_the_time_unknown(clock, capsys):
    with progress("label", 100, "labels") as bar:
        bar._started = 0.0
        clock[0] = 5.0
        bar.advance(80, free=True)
        assert bar.rate == 0.0
    assert "time left unknown" in capsys.readouterr().err


def test_a_terminal_is_told_the_same(clock, monkeypatch):
    screen = Console(file=io.StringIO(), force_terminal=True, width=200)
    monkeypatch.setattr(module, "Console", lambda stderr: screen)
    with progress("label", 1000, "labels") as bar:
        bar._started = 0.0
        bar.advance(800, free=True)
        assert bar.left == "time left unknown"
        clock[0] = 40.0
        bar.advance(80)
        assert bar.left == "60 s left"
    assert "2.0 labels/s, 60 s left" in screen.file.getvalue()
