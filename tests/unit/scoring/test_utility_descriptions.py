"""Every utility says what it is: in its docstring, on the command line, in the README."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.scoring import UTILITIES, describe, make_utility
from utilitune.scoring.description import FIELDS

README = Path(__file__).resolve().parents[3] / "README.md"


@pytest.mark.parametrize("name", UTILITIES)
def test_every_field_is_there(name):
    found = describe(name)
    assert found.meaning.endswith(".") and "\n" not in found.meaning
    assert set(FIELDS) <= set(found.fields)
    assert "arXiv" in found.fields["Source"]
    assert found.cost.startswith(("one prefill", "as grogu:mean-entropy", "as information-gain"))
    assert found.needs_answers is make_utility(name).needs_answers
    assert found.fields["Needs"].startswith("gold answers" if found.needs_answers else "no gold answers")


def test_fields_end_where_the_next_begins():
    fields = describe("grogu:key-entropy").fields
    assert fields["Range"] == "[-ln V, ln V]."
    assert fields["No passages"] == "exactly 0."
    assert describe("grogu:max-entropy").meaning.endswith(
        "confidence = -max_t H_t, in [-ln V, 0]: the least sure token decides."
    )


def test_a_utility_with_a_gamma_inside_is_described_by_its_own_formula():
    found = describe("joint-gain")
    for part in ("ln p(q_s | D, q_<s)", "γ(y_g | q, D)"):
        assert part in found.fields["Formula"] and part in found.marked["Formula"]
    assert "confidence =" not in found.meaning


def test_a_utility_without_docstring_is_described_by_what_it_has():
    class Own:
        name, needs_answers, parameters = "own", False, {"scale": 2}

        def requests(self, query, passages):
            return {}

        def value(self, query, passages, responses):
            raise NotImplementedError

    found = describe(Own())
    assert (found.name, found.meaning, found.cost, found.parameters) == ("own", "", "", {"scale": 2})


def test_the_verb_lists_all_of_them():
    done = CliRunner().invoke(app, ["utilities"])
    assert done.exit_code == 0
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == list(UTILITIES)
    for name, gold, meaning, cost in rows:
        assert gold == ("needs gold answers" if describe(name).needs_answers else "no gold answers needed")
        assert meaning == describe(name).meaning and cost == f"Cost: {describe(name).cost}"


def test_the_verb_tells_everything_of_one():
    done = CliRunner().invoke(app, ["utilities", "sper,n=4"])
    assert done.exit_code == 0
    assert done.stdout.startswith("sper,n=4: Belief in the gold answer")
    for field in FIELDS:
        assert f"  {field}: " in done.stdout
    assert '"n": 4' in done.stdout and "string-match:contains" in done.stdout


def test_readme_names_every_utility():
    table = README.read_text().partition("## Utilities")[2].partition("\n## ")[0]
    named = {word for row in table.splitlines() if row.startswith("| `") for word in row.split("|")[1].split("`")[1::2]}
    named = {word if word in UTILITIES else f"grogu:{word}" for word in named}
    assert named | {"grogu"} == set(UTILITIES)
