"""Labels of the packaged chat model on invented facts that no model can know."""

import pytest

from utilitune.generator import load_generator
from utilitune.records.dataset import Dataset
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Run
from utilitune.scoring import label

pytestmark = pytest.mark.integration

FACTS = [
    (
        "Which river runs through the town of Orlen?",
        "Orlen is a market town in the hills of Vastra. The river Sembe runs through it, under four stone bridges.",
        "Tolvik bakers are known for a dark rye bread that keeps for a month and is sold at every fair.",
    ),
    (
        "Who founded the Quillon glassworks?",
        "The Quillon glassworks were founded by Mira Tolve, a chemist from Brasca, who paid for the first furnace.",
        "The ferry to Narrow Island leaves at dawn and at dusk, and takes carts, sheep and forty passengers.",
    ),
    (
        "In which year did the Meru lighthouse open?",
        "The Meru lighthouse opened in 1874, after nine years of building on a rock that the sea covers at high tide.",
        "Ada Fenwick painted the orchards of Iden every spring, always from the same attic window.",
    ),
    (
        "What does the firm Halvard and Sons make?",
        "Halvard and Sons of Tolvik make church bells. Their largest one weighs nine tons and hangs in Brasca.",
        "The river Sembe freezes in hard winters, and the children of the town skate as far as the mill.",
    ),
    (
        "What is the name of the mayor of Brasca?",
        "Brasca has had the same mayor for eleven years: Jonas Wick, a former schoolmaster with a wooden leg.",
        "Honey from the heath near Quillon is nearly black and is said to keep bears away.",
    ),
    (
        "Which animal is on the flag of Vastra?",
        "The flag of Vastra shows a white heron on green, because herons led the first settlers to dry land.",
        "The library of Narrow lends tools as well as books, and most of its readers come for the ladders.",
    ),
]
UTILITIES = ["information-gain", "entropy-drop", "grogu:mean-entropy", "grogu:key-entropy,tau=0.5", "abstention"]


def world():
    corpus = [Passage(f"g{n}", gold) for n, (_, gold, _) in enumerate(FACTS)]
    corpus += [Passage(f"x{n}", other) for n, (_, _, other) in enumerate(FACTS)]
    queries = [Query(f"q{n}", question) for n, (question, _, _) in enumerate(FACTS)]
    run = Run({f"q{n}": [(f"x{n}", 2.0), (f"g{n}", 1.0)] for n in range(len(FACTS))})
    return Dataset(corpus, queries), run


def generator(batch_tokens):
    # Where bfloat16 is quick, "auto" takes it, and its rounding depends on what else is in the batch.
    return load_generator("packaged:smollm2-135m-instruct", dtype="float32", batch_tokens=batch_tokens)


@pytest.fixture(scope="module")
def wide():
    return label(*world(), UTILITIES, generator(8192))


def test_gold_passages_are_worth_more(wide):
    for name, least in {"information-gain": 4, "entropy-drop": 5}.items():
        worth = wide.table(name)
        wins = sum(worth[f"q{n}"][f"g{n}"] > worth[f"q{n}"][f"x{n}"] for n in range(len(FACTS)))
        assert wins >= least, (name, worth)


def test_every_label_is_a_number(wide):
    assert len(wide) == 12 * len(UTILITIES)
    assert all(row.status == "ok" for row in wide)
    assert all(0 <= number <= 1 for row in wide.table("abstention").values() for number in row.values())


def test_batch_size_does_not_matter(wide):
    narrow = label(*world(), UTILITIES, generator(1))
    assert [row.label_set for row in narrow] == [row.label_set for row in wide], "not part of the identity"
    for ours, theirs in zip(narrow, wide, strict=True):
        assert ours.evidence.get("answer") == theirs.evidence.get("answer")
        assert ours.utility == pytest.approx(theirs.utility, abs=1e-4)
