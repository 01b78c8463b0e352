"""Values of answers go into the rows of rankings."""

from __future__ import annotations

from utilitune.evaluation import Row
from utilitune.recipe.stages.answer_values import add_values


def test_a_row_keeps_its_block_and_gains_values():
    rows = {"tuned": Row("tuned", {"RR": {"q": 1.0}}, counts={"scored": 1}, block="dense")}
    add_values(rows, [Row("tuned", {"F1": {"q": 0.5}}, counts={"answers": 1}), Row("other", {"F1": {"q": 0.0}})])
    assert rows["tuned"] == Row(
        "tuned", {"RR": {"q": 1.0}, "F1": {"q": 0.5}}, counts={"scored": 1, "answers": 1}, block="dense"
    )
    assert rows["other"].block == ""
