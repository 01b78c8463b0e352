"""Whole recipes: `pytest -m e2e`. The quickstart's table must match its expected.json within the stated tolerances."""

import json
from pathlib import Path

import pytest

from utilitune.recipe import Recipe, run_recipe

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


@pytest.mark.e2e
@pytest.mark.timeout(3600)
def test_the_quickstart_gives_its_expected_table(tmp_path):
    recipe = Recipe.load(RECIPES / "quickstart" / "recipe.yaml", [f"out={tmp_path / 'run'}"])
    run_recipe(recipe)
    report = json.loads((tmp_path / "run" / "evaluate" / "report.json").read_text())
    found = {
        (table["title"].partition(":")[0], row["block"], row["name"], measure): cell["mean"]
        for table in report["tables"]
        for row in table["rows"]
        for measure, cell in row["cells"].items()
        if cell is not None
    }
    expected = json.loads((RECIPES / "quickstart" / "expected.json").read_text())
    assert len(expected["metrics"]) >= 12
    wrong = []
    for one in expected["metrics"]:
        value = found[one["table"], one["block"], one["system"], one["measure"]]
        if abs(value - one["value"]) > one["tolerance"]:
            wrong.append(f"{one}: found {value}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.e2e
@pytest.mark.timeout(1800)
def test_a_second_run_computes_nothing(tmp_path):
    recipe = Recipe.load(RECIPES / "quickstart" / "smoke.yaml", [f"out={tmp_path / 'run'}"])
    first = run_recipe(recipe)
    assert set(first.values()) == {"ran", "left out"}  # stages that the recipe does not ask for
    assert set(run_recipe(recipe).values()) == {"unchanged", "left out"}
