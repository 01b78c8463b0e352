"""The measured figures of docs/correlation.md are those of benchmarks/results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TABLE = (ROOT / "benchmarks" / "results" / "correlation-smollm2-135m" / "table.md").read_text(encoding="utf-8")
MEASURED = (ROOT / "docs" / "correlation.md").read_text(encoding="utf-8").split("\nMeasured: ")[1].split("\n\n")[0]


def cells(metric):
    """The row of Spearman's ρ, with 0.110 as .110 and without the relative difference."""
    row = next(line for line in TABLE.splitlines() if line.startswith(f"| {metric} |"))
    return [re.sub(r"\b0\.", ".", cell.split(" (")[0].strip()) for cell in row.split("|")[2:-1]]


@pytest.mark.parametrize("metric", ["UDCG", "nDCG", "UDCGθ"])
def test_means_are_as_measured(metric):
    assert re.search(rf"\b{metric}\s{re.escape(cells(metric)[0])}", MEASURED)


def test_difference_and_single_passages_are_as_measured():
    assert f"difference {cells('UDCG')[1]}" in MEASURED
    alone = [cells(metric)[3].split()[0] for metric in ("UDCG", "nDCG")]
    assert f"At k = 1 UDCG has {alone[0]} and nDCG {alone[1]}" in MEASURED
