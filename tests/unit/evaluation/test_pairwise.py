"""Every system of a table against every other."""

import numpy as np

from utilitune.evaluation import Row, Table, holm, significance
from utilitune.evaluation.latex import report_latex
from utilitune.evaluation.markdown import report_markdown
from utilitune.evaluation.pairwise import numbered, pairwise, pairwise_section

IDS = [f"q{i:02d}" for i in range(40)]
CLUSTERS = {query_id: f"c{i // 2}" for i, query_id in enumerate(IDS)}


def rows(**shifts):
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.1, len(IDS))
    return [
        Row(name, {"X": dict(zip(IDS, (shift + noise + rng.normal(0, 0.1, len(IDS))).tolist(), strict=True))}, block)
        for block in ("bm25", "dense")
        for name, shift in shifts.items()
    ]


def test_every_pair_is_the_comparison_alone_corrected_over_all():
    systems = rows(low=0.1, high=0.9, same=0.88)
    found = pairwise(systems, "X", CLUSTERS, 13)
    assert found["measure"] == "X" and found["comparisons"] == 6
    own = {(row.block, row.name): row.values["X"] for row in systems}
    changes, alone = [], []
    for block in found["blocks"]:
        names = [system["name"] for system in block["systems"]]
        assert [system["mean"] for system in block["systems"]] == sorted(
            (system["mean"] for system in block["systems"]), reverse=True
        )
        for pair in block["pairs"]:
            assert pair["higher"] < pair["lower"]
            before, after = (own[block["block"], names[pair[end]]] for end in ("lower", "higher"))
            alone.append(significance(before, after, clusters=CLUSTERS))
            changes.append(pair["change"])
    assert [(each["difference"], each["low"], each["p"]) for each in changes] == [
        (each.difference, each.low, each.p) for each in alone
    ]
    assert [each["p_holm"] for each in changes] == holm([each.p for each in alone])


def test_what_is_told_apart_is_numbered():
    table = Table("T", ["X"], rows(low=0.1, high=0.9, mid=0.5), clusters=CLUSTERS, pairwise="X").as_dict()
    made = pairwise_section(table)
    assert [line[:2] + line[3:] for line in made["lines"]] == [
        [f"{block} {number}", name, above, below]
        for block in ("bm25", "dense")
        for number, name, above, below in ((1, "high", "2–3", "–"), (2, "mid", "3", "1"), (3, "low", "–", "1–2"))
    ]
    assert "whole conversations flipped" in made["notes"][0] and "these 6 comparisons" in made["notes"][0]


def test_equal_systems_are_not_told_apart():
    (row,) = rows(one=0.5)[:1]
    table = Table("T", ["X"], [row, Row("two", row.values, row.block)], pairwise="X").as_dict()
    assert [line[3:] for line in pairwise_section(table)["lines"]] == [["–", "–"], ["–", "–"]]


def test_a_system_without_the_measure_and_a_table_of_one_are_left_out():
    systems = [*rows(a=0.1, b=0.9), Row("c", {"Y": {"q": 1.0}}, "bm25")]
    assert [len(block["systems"]) for block in pairwise(systems, "X", None, 13)["blocks"]] == [2, 2]
    assert pairwise(systems[:1], "X", None, 13) is None
    assert pairwise_section(Table("T", ["X"], systems[:1], pairwise="X").as_dict()) is None
    assert pairwise_section({"title": "of an earlier version"}) is None


def test_runs_of_numbers():
    assert [numbered(each) for each in ([], [4], [1, 2, 3, 5, 7, 8])] == ["–", "4", "1–3, 5, 7–8"]


def test_markdown_and_latex_hold_them_beside_other_sections():
    table = Table("T", ["X"], rows(low=0.1, high=0.9), pairwise="X").as_dict()
    one = {"title": "A | study", "head": ["a", "b"], "lines": [["x|y", "1 & 2"]], "notes": ["Said."]}
    body = {"title": "R", "tables": [table], "sections": [one], "counts": {}, "notes": [], "manifest": {}}
    text = report_markdown(body)
    assert "## T: every one against every other" in text and "| bm25 1 | high |" in text
    assert "## A \\| study" in text and "| x\\|y | 1 & 2 |" in text and "Said." in text
    tex = report_latex(body)
    assert tex.count(r"\begin{table}") == 3 and r"x|y & 1 \& 2 \\" in tex
