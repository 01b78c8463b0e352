"""docs/utilities.md says what ``utilitune utilities`` says, of every utility."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring import UTILITIES, make_utility

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "utilities.md").read_text(encoding="utf-8")


def section(title):
    return re.split(rf"^## {title}$", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]


def test_the_table_is_the_one_that_the_command_prints():
    table = re.search(r"<!-- utilities -->\n(.*?)\n<!-- /utilities -->", PAGE, re.DOTALL)[1]
    done = CliRunner().invoke(app, ["utilities", "--markdown"])
    assert table == done.stdout.strip(), "paste the output of `utilitune utilities --markdown` into docs/utilities.md"
    assert [row.split("`")[1] for row in table.splitlines()[2:]] == list(UTILITIES)


def test_the_page_tells_when_to_pick_each():
    told = set(re.findall(r"`([\w:-]+)(?:,[^`]*)?`", section("Which one")))
    missing = {name.partition(":")[0] for name in UTILITIES} - {name.partition(":")[0] for name in told}
    assert not missing, f"docs/utilities.md, 'Which one', says nothing of {missing}"


COSTS = dict(re.findall(r"^\| `([\w:-]+)` \| ([k0-9 +*()]+) \|$", section("Cost"), re.MULTILINE))


def test_every_cost_is_told():
    missing = set(UTILITIES) - set(COSTS) - {name for name in UTILITIES if name.startswith("grogu:")}
    assert not missing, f"docs/utilities.md, 'Cost', says nothing of {missing}"


@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("k", [1, 3, 10])
def test_prompts_to_prefill(name, k):
    query = Query("q", "On which river is Orlen?", answers=("nelrO",))
    prompts = set()
    for number in range(k):
        for request in make_utility(name).requests(query, [Passage(f"p{number}", f"Town {number}.")]).values():
            prompts |= {request.prompt, getattr(request, "other", request.prompt)}
    assert len(prompts) == eval(COSTS[name], {"k": k})


def test_the_readings_selectors_and_measures_are_named():
    from utilitune.scoring.abstention import READINGS, SPELLINGS
    from utilitune.scoring.key_tokens import SELECTORS

    for name in (*READINGS, *SELECTORS, *(set(SPELLINGS) - {"reference"})):
        assert name in PAGE, name
    assert PAGE.count("<!-- signal -->") == 1 or section("Which signal is strong").strip()
