"""Tables and the report."""

import csv
import io
import json

import pytest

from utilitune.errors import ConfigError
from utilitune.evaluation import (
    Row,
    Table,
    evaluate,
    latex_table,
    markdown_table,
    render_table,
    significance,
    write_report,
)
from utilitune.evaluation.markdown import escape_cell
from utilitune.evaluation.report import read_per_query
from utilitune.records import Run

RAW = {"q1": 0.0, "q2": 0.5, "q3": 0.0, "q4": 0.25}
DENSE = {"q1": 0.5, "q2": 0.5, "q3": 0.5, "q4": 0.5}
TUNED = {"q1": 1.0, "q2": 0.5, "q3": 0.5, "q4": 1.0}


def table(**options):
    rows = [
        Row("raw question", {"MRR@10": RAW, "R@10": RAW}, "BM25"),
        Row("tuned rewriter", {"MRR@10": TUNED, "R@10": RAW}, "BM25"),
        Row("human rewrite", {"MRR@10": {"q1": 1.0, "q2": 1.0}}, "BM25"),
        Row("raw question", {"MRR@10": DENSE, "R@10": RAW}, "dense"),
        Row("tuned rewriter", {"MRR@10": RAW, "R@10": TUNED}, "dense"),
    ]
    settings = {"before": "raw question", "after": ["tuned rewriter"]} | options
    return Table("Rewriter", ["MRR@10", "R@10"], rows, **settings)


def test_cells_by_hand():
    cells = table().cells()
    plain = cells["BM25", "raw question", "MRR@10"]
    assert (plain.n, plain.mean, plain.change) == (4, 0.1875, None)
    change = cells["BM25", "tuned rewriter", "MRR@10"].change
    alone = significance(RAW, TUNED)
    assert (change.before, change.after, change.difference) == (0.1875, 0.75, 0.5625)
    assert (change.low, change.high, change.p) == (alone.low, alone.high, alone.p)
    # Four comparisons: two of p = .25, two of p = 1.
    assert change.p_holm == pytest.approx(1.0)
    assert ("BM25", "human rewrite", "R@10") not in cells
    assert cells["BM25", "human rewrite", "MRR@10"].n == 2
    assert cells["BM25", "human rewrite", "MRR@10"].change is None


def test_holm_is_over_the_whole_table():
    queries = [f"q{i}" for i in range(40)]
    low, high = dict.fromkeys(queries, 0.0), dict.fromkeys(queries, 1.0)
    rows = [Row("a", {"X": low, "Y": low}), Row("b", {"X": high, "Y": low}), Row("c", {"X": high, "Y": high})]
    cells = Table("", ["X", "Y"], rows, before="a").cells()
    p = cells["", "b", "X"].change
    assert p.p == pytest.approx(1 / 10_001)
    assert p.p_holm == pytest.approx(4 / 10_001)


def test_comparison_in_each_block_with_its_own_baseline():
    cells = table().cells()
    dense = cells["dense", "tuned rewriter", "MRR@10"].change
    assert (dense.before, dense.after, dense.difference) == (0.5, 0.1875, -0.3125)
    assert cells["dense", "tuned rewriter", "R@10"].change.difference == 0.5625


def test_all_other_rows_are_compared_when_none_is_named():
    cells = table(after=()).cells()
    human = cells["BM25", "human rewrite", "MRR@10"]
    assert human.change.n == 2
    assert human.change.before == 0.25


def test_names_that_are_not_there_are_refused_at_once():
    with pytest.raises(ConfigError) as caught:
        table(before="nope", after=["also nope"]).cells()
    assert "'nope'" in str(caught.value)
    assert "'also nope'" in str(caught.value)
    with pytest.raises(ConfigError, match="twice"):
        Table("", ["X"], [Row("a", {}), Row("a", {})]).cells()


def test_terminal_text():
    text = render_table(table(), width=400)
    lines = text.splitlines()
    assert "0.188 ▶ 0.750 (Δ +0.562 [" in text
    assert lines[0] == "Rewriter"
    assert "–" in next(line for line in lines if "human rewrite" in line)
    body = lines[2:9]
    assert [line[:5].strip() for line in body] == ["", "-----", "BM25", "", "", "-----", "dense"]
    assert len({line.index("4  ") for line in (body[2], body[3], body[6])}) == 1
    narrow = render_table(table(), width=100)
    assert max(map(len, narrow.splitlines()[:-2])) <= 100
    assert narrow.count("▶ 0.750") == text.count("▶ 0.750")


def test_p_and_signs():
    queries = [f"q{i}" for i in range(300)]
    rows = [Row("a", {"X": dict.fromkeys(queries, 1.0)}), Row("b", {"X": dict.fromkeys(queries, 0.0)})]
    assert "(Δ −1.000 [−1.000, −1.000], p < .001)" in render_table(Table("", ["X"], rows, before="a"))
    same = [Row("a", {"X": RAW}), Row("b", {"X": dict(RAW)})]
    assert "(Δ 0.000 [0.000, 0.000], p 1)" in render_table(Table("", ["X"], same, before="a"))


def test_markdown_keeps_odd_names_in_their_cell():
    rows = [Row("a|b\nc <script> \\|", {"X": RAW}, "x|y\u2028z")]
    text = markdown_table(Table("T\n# evil", ["X"], rows))
    assert "# evil" not in text.splitlines()
    body = [line for line in text.splitlines() if line.startswith("|")]
    assert len(body) == 3
    bare = body[2].replace("\\\\", "").replace("\\|", "")
    assert bare.count("|") == 5
    assert "<script>" not in text


def test_report_files(tmp_path):
    qrels = {"q1": {"a": 1.0}, "q2": {"b": 1.0}}
    first, second = Run({"q1": [("b", 2.0), ("a", 1.0)], "q9": []}), Run({"q1": [("a", 1.0)], "q2": [("b", 1.0)]})
    result = evaluate(qrels, {"first stage": first, "reranked": second}, ["MRR@10", "nDCG@10"])
    paths = write_report(
        tmp_path / "deep" / "report",
        [result.table("Reranker", before="first stage"), table()],
        title="Test | report",
        counts={"label": {"truncated": 3, "failed": 0}},
        notes=["The reader never\nabstains."],
        manifest={"command": "utilitune run x|y.yaml", "seed": 13, "nested": {"a": 1}},
    )
    text = paths["report.md"].read_text(encoding="utf-8")
    assert text.startswith("# Test \\| report\n")
    assert "* The reader never abstains." in text
    assert "| label | truncated | 3 |" in text
    assert "| label | failed | 0 |" in text
    assert "scored 2 = 1 answered + 1 missing; 1 unjudged" in text
    assert "x\\|y.yaml" in text
    body = json.loads(paths["report.json"].read_text(encoding="utf-8"))
    assert body["manifest"]["nested"] == {"a": 1}
    cell = body["tables"][0]["rows"][1]["cells"]["MRR@10"]
    assert (cell["n"], cell["mean"], cell["change"]["wins"], cell["change"]["difference"]) == (2, 1.0, 2, 0.75)
    assert body["tables"][1]["rows"][2]["cells"]["R@10"] is None
    rows = list(csv.DictReader(io.StringIO(paths["per_query.csv"].read_text(encoding="utf-8"))))
    assert len(rows) == 2 + 2 + 4 * 4 + 2
    assert rows[0] == {
        "table": "Reranker",
        "block": "",
        "system": "first stage",
        "query_id": "q1",
        "MRR@10": "0.5",
        "nDCG@10": repr(result.per_query["first stage"]["nDCG@10"]["q1"]),
        "R@10": "",
    }
    assert sorted(p.name for p in (tmp_path / "deep" / "report").iterdir()) == sorted(paths)


def test_report_is_the_same_twice(tmp_path):
    one = write_report(tmp_path / "a", [table()])
    two = write_report(tmp_path / "b", [table()])
    assert all(one[name].read_bytes() == two[name].read_bytes() for name in one)


def test_report_without_counts_says_so(tmp_path):
    assert "No stage reported any." in write_report(tmp_path, [])["report.md"].read_text(encoding="utf-8")


def test_latex_by_hand():
    text = latex_table(table())
    lines = text.splitlines()
    assert lines[3] == r"\begin{tabular}{llrll}"
    assert lines[5] == r" & system & $n$ & MRR@10 & R@10 \\"
    plain = next(line for line in lines if line.startswith("BM25 & raw question"))
    assert plain.startswith(r"BM25 & raw question & 4 & 0.188 {\scriptsize [0.000, ")
    changed = next(line for line in lines if line.startswith(" & tuned rewriter & 4 & 0.188"))
    assert r"0.188 $\to$ 0.750 {\scriptsize (+0.562 [" in changed
    assert r"0.188 $\to$ 0.188 {\scriptsize (0.000 [0.000, 0.000])}" in changed
    assert text.count("midrule") == 2
    assert all(line.count("&") == 4 for line in lines if line.endswith(r"\\"))


def test_latex_stars_go_by_the_corrected_p():
    queries = [f"q{i}" for i in range(40)]
    low, high = dict.fromkeys(queries, 0.0), dict.fromkeys(queries, 1.0)
    assert "1.000$^{***}$" in latex_table(Table("", ["X"], [Row("a", {"X": low}), Row("b", {"X": high})], before="a"))
    rows = [Row("a", {"X": low}), *(Row(f"b{i}", {"X": high}) for i in range(20))]
    assert "1.000$^{**}$" in latex_table(Table("", ["X"], rows, before="a"))
    assert "$^{" not in latex_table(Table("", ["X"], [Row("a", {"X": low}), Row("b", {"X": low})], before="a"))


def test_latex_keeps_odd_text_as_text():
    evil = "a&b_c 100% $x$ {y} #1 ~ ^ \\input{/etc/passwd} <z>\n\n\x00 Δ −1"
    text = latex_table(Table(evil, [evil], [Row(evil, {evil: RAW}, evil)]))
    row = next(line for line in text.splitlines() if "100" in line and line.endswith(r"\\") and "0.188" in line)
    assert r"a\&b\_c 100\% \$x\$ \{y\} \#1 \textasciitilde{} \textasciicircum{} \textbackslash{}input\{/etc" in row
    bare = row.replace(r"\{", "").replace(r"\}", "").replace(r"\&", "")
    assert bare.count("{") == bare.count("}")
    assert bare.count("&") == 3
    assert "\x00" not in text and "Δ" not in text


def test_every_rendering_is_the_same_from_the_json():
    made = table()
    body = json.loads(json.dumps(made.as_dict()))
    assert render_table(body) == render_table(made)
    assert markdown_table(body) == markdown_table(made)
    assert latex_table(body) == latex_table(made)


def test_markdown_shows_text_and_nothing_else():
    """Rendered, a hostile name must fetch nothing, link nowhere and be no heading."""
    assert escape_cell("![x](http://evil/t.png)") == "![x\\](http://evil/t.png)"
    assert escape_cell("[a]: javascript:x") == "[a\\]: javascript:x"
    assert escape_cell("`code` *bold* _soft_ ~~gone~~") == "\\`code\\` \\*bold\\* \\_soft\\_ \\~\\~gone\\~\\~"
    assert escape_cell("# head") == "\\# head" and escape_cell("__init__") == "\\_\\_init\\_\\_"
    assert escape_cell("&lt;b&gt; & c") == "\\&lt;b\\&gt; & c"
    assert escape_cell("a\x1b[31m\u202eb") == "a[31mb"
    assert escape_cell("nDCG@10 of my_run: .5 [.4, .6]") == "nDCG@10 of my_run: .5 [.4, .6]"


def test_latex_rows_do_not_begin_with_an_argument_of_the_line_before():
    found = latex_table(
        Table("T", ["X"], [Row("first", {"X": RAW}), Row("[dev] bm25", {"X": RAW}), Row("*x", {"X": RAW})])
    )
    assert "\n{}[dev] bm25 & " in found and "\n{}*x & " in found


def test_values_by_query_are_read_back_exactly(tmp_path):
    paths = write_report(tmp_path, [table()])
    found = read_per_query(paths["per_query.csv"])
    assert found["Rewriter", "BM25", "tuned rewriter"] == {"MRR@10": TUNED, "R@10": RAW}
    assert found["Rewriter", "BM25", "human rewrite"] == {"MRR@10": {"q1": 1.0, "q2": 1.0}}
