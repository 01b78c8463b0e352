"""The measured figures of docs/correlation.md are those of benchmarks/results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "results"
MODELS = {"SmolLM2-135M": "correlation-smollm2-135m", "Gemma-3-270m": "correlation-gemma3-270m"}
PAGE = (ROOT / "docs" / "correlation.md").read_text(encoding="utf-8")
MEASURED = PAGE.split("\n## Measured\n")[1].split("\n## ")[0]


def rows(text):
    """All table rows by their first cell; the first of a name counts: ρ comes before τ."""
    found = {}
    for line in text.splitlines():
        if line.startswith("|"):
            name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            found.setdefault(name, cells)
    return found


def short(cell):
    """0.110 as .110, and no relative difference."""
    return re.sub(r"\b0\.", ".", cell.split(" (")[0])


@pytest.mark.parametrize("model", MODELS)
def test_figures_are_as_measured(model):
    page = rows(MEASURED)
    column = page["mean ρ over k = 1 … 10"].index(model)
    table = rows((RESULTS / MODELS[model] / "table.md").read_text(encoding="utf-8"))
    heads = table["metric"]
    at = {length: heads.index(f"k={length}") for length in (1, 10)}
    expected = {name: short(table[name][0]) for name in ("nDCG", "UDCG", "UDCGθ", "mean u", "eRAG")}
    expected |= {
        "UDCG less nDCG": short(table["UDCG"][heads.index("Δ to nDCG")]),
        "UDCGθ less UDCG": short(table["UDCGθ"][heads.index("Δ to UDCG")]),
        "UDCG, k = 1": short(table["UDCG"][at[1]]),
        "nDCG, k = 1": short(table["nDCG"][at[1]]),
        "right, k = 1": short(table["(right)"][at[1]]),
        "right, k = 10": short(table["(right)"][at[10]]),
    }
    assert {name: page[name][column] for name in expected} == expected
