"""docs/rerankers.md says what the code does with every loss."""

import re
from pathlib import Path

from utilitune.rerank import LOSSES, RESCALES
from utilitune.rerank.losses import loss_table
from utilitune.rerank.relevance import SOURCES

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "rerankers.md").read_text(encoding="utf-8")


def test_the_loss_table_is_the_one_of_the_code():
    table = re.search(r"<!-- losses -->\n(.*?)\n<!-- /losses -->", PAGE, re.DOTALL)[1]
    assert table == loss_table(), "paste utilitune.rerank.losses.loss_table() into docs/rerankers.md"
    assert [row.split("`")[1] for row in table.splitlines()[2:]] == list(LOSSES)


def test_rules_and_sources_of_relevance_are_named():
    for name in (*RESCALES, *SOURCES):
        assert f"`{name}`" in PAGE, name
