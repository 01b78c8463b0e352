"""The signal table of docs/utilities.md says what the measured results say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODELS = ("signal-smollm2-135m", "signal-gemma3-270m")


def rows(text):
    """Table rows by their first cell, without backticks."""
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {row[0].strip("`"): row[1:] for row in cells}


def short(cell):
    """0.942 as .942; a dash as nothing."""
    return "" if cell == "–" else re.sub(r"\b0\.", ".", cell)


def documented():
    text = (ROOT / "docs" / "utilities.md").read_text(encoding="utf-8")
    lines = text.split("## Which signal is strong")[1].split("\n\n![")[0].splitlines()
    found = rows("\n".join(line.replace("| |", "| – |") for line in lines if line.startswith("| `")))
    assert len(found) >= 11
    return found


@pytest.mark.parametrize(("place", "model"), enumerate(MODELS))
def test_documented_figures_are_the_measured_ones(place, model):
    measured = rows((ROOT / "benchmarks" / "results" / model / "table.md").read_text(encoding="utf-8"))
    for utility, cells in documented().items():
        hard, _, change, _, mrr, _, _, within = measured[utility][:8]
        expected = [short(hard), short(change), short(mrr.split()[0]), short(within.split()[0])]
        assert [short(cell) for cell in cells[4 * place : 4 * place + 4]] == expected, utility
