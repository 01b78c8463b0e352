"""The page: what is on it, that nothing leaves it, and that hostile text stays text."""

import itertools
import json
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from finished_run import HOSTILE, finished_run, parsed

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation import Row, Table, write_report
from utilitune.evaluation.html import render_page, run_report, write_run_report
from utilitune.evaluation.html.clean import LIMIT, Cleaner
from utilitune.evaluation.html.label_tokens import weighted_tokens
from utilitune.evaluation.html.plot_data import by_kind, reliability
from utilitune.evaluation.html.plots import plot_svg
from utilitune.records import Dataset, Labels, Passage, Query, Run, UtilityLabel, write_dataset, write_run

VOID = {"meta", "link", "img", "br", "hr", "input", "path", "use", "rect"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.style, self.open = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        (self.style if self.open and self.open[-1] == "style" else self.texts).append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = finished_run(tmp_path_factory.mktemp("run"))
    return folder, write_run_report(folder, folder / "report")


@pytest.fixture(scope="module")
def page(plain):
    return Page(plain[1]["report.html"].read_text(encoding="utf-8"))


def test_everything_of_a_run_is_on_the_page(page):
    assert page.open == []
    for shown in (
        "0.521 ▶ 0.750",
        "first stage",
        "truncated",
        "Truncated, skipped, failed, fallen back on",
        "What changed most",
        "bm25 · first stage ▶ tuned reranker, by MRR@10",
        "search text tuned mill",
        "gold answers Eke 2",
        "Mill 2 lies at Eke 2.",
        "What the labels saw",
        "Calibration of the answers",
        "Rewriter, DPO: loss learning",
        "Epoch 2 was kept.",
        "interval over 6 whole conversations",
        "Rewriter: every one against every other",
        "tuned rewriter less untuned rewriter Δ +0.229",
        "Answers, marked by a judge (judge/marks.jsonl) mark answers share CORRECT 12 1.000",
        '"command": "utilitune run"',
    ):
        assert shown in page.text, shown
    # Two histograms, five training curves, gains of two tables, calibration.
    assert page.tags.count("svg") == 2 + 5 + 2 + 1


def test_files_come_from_one_json(plain):
    folder, paths = plain
    body = parsed(paths["report.json"])
    assert render_page(body) == paths["report.html"].read_text(encoding="utf-8")
    assert body["tables"] == parsed(folder / "evaluate" / "report.json")["tables"]
    assert r"\toprule" in paths["report.tex"].read_text()
    assert "## Wins, ties, losses" in paths["report.md"].read_text()
    assert sorted(paths) == ["report.html", "report.json", "report.md", "report.tex"]


def test_nothing_of_the_run_itself_is_touched(tmp_path):
    folder = finished_run(tmp_path / "run")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    write_run_report(folder, tmp_path / "out")
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_safe(text):
    found = Page(text)
    assert not {"script", "iframe", "object", "embed", "link", "img", "form", "base", "a"} & set(found.tags)
    assert found.tags.count("style") <= 1 + found.tags.count("svg")
    for name, value in found.attributes:
        assert not name.startswith("on"), name
        assert name not in ("src", "srcset", "action", "formaction", "href")
        if name == "xlink:href":
            assert value.startswith("#")
        if name == "style":
            assert "url(http" not in value and "expression" not in value
    assert not any("display:none" in style for style in found.style)
    return found


def test_a_page_asks_nothing_of_the_network(plain):
    text = plain[1]["report.html"].read_text(encoding="utf-8")
    found = check_safe(text)
    assert "@import" not in "".join(found.style) and "url(" not in "".join(found.style)
    assert dict(found.attributes)["content"]
    assert any("default-src 'none'" in (value or "") for _, value in found.attributes)


def test_hostile_text_everywhere_stays_text(tmp_path):
    folder = finished_run(tmp_path / "run", evil=True)
    paths = write_run_report(folder, tmp_path / "out")
    text = paths["report.html"].read_text(encoding="utf-8")
    found = check_safe(text)
    assert found.open == []
    assert "<script>alert(1)</script></style>" in found.text
    assert "{{7*7}}" in found.text and " 49 " not in found.text
    assert len(text) < 8_000_000
    cut = parsed(paths["report.json"])
    assert "x" * 100_000 in cut["title"]
    # The command of the manifest is whole; nothing else is longer than the limit.
    assert text.count("x" * (LIMIT + 1)) == 1
    assert "more characters)" in found.text
    assert "texts cut" in found.text
    assert "<script" not in paths["report.md"].read_text(encoding="utf-8")
    assert "\\frac" not in paths["report.tex"].read_text(encoding="utf-8")


EVILS = [HOSTILE, "\ud800\x00\x1b[31m", "\u202e" * 50, "</style>", "javascript:alert(1)", "\ufffe", "'\"><b x='"]
NAMED = {"cells", "counts"}


def test_hostile_text_in_every_string_of_the_json(plain):
    body = parsed(plain[1]["report.json"])
    by_kind = {plot["kind"]: plot for plot in body["plots"]}
    body["plots"] = list(by_kind.values())
    given = itertools.count()
    evils = {}

    def evil(text):
        # The same name is poisoned alike wherever it stands.
        return text + evils.setdefault(text, EVILS[next(given) % len(EVILS)])

    def poison(value, key=""):
        if isinstance(value, str):
            return value if key in ("kind", "role") else evil(value)
        if isinstance(value, dict):
            named = key in NAMED or (any(isinstance(item, int) for item in value.values()) and key == "label")
            return {evil(name) if named else name: poison(item, name) for name, item in value.items()}
        return [poison(item, key) for item in value] if isinstance(value, list) else value

    found = check_safe(render_page(poison(body)))
    assert next(given) > 60
    assert found.open == []


def test_long_texts_are_cut_and_odd_characters_replaced_and_both_counted():
    clean = Cleaner(limit=10)
    assert clean({"a\x00": ["x" * 25, "\ud800", 3, None, "tab\tline\n"]}) == {
        "a\ufffd": ["x" * 10 + "… (15 more characters)", "\ufffd", 3, None, "tab\tline\n"]
    }
    assert (clean.cut, clean.replaced) == (1, 2)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"neither report\.json nor"):
        run_report(tmp_path)
    (tmp_path / "report.json").write_text('{"x": 1}')
    with pytest.raises(DataError, match="not a report of ours"):
        run_report(tmp_path)


def test_a_run_without_evaluation_shows_its_counts(tmp_path):
    folder = finished_run(tmp_path / "run")
    (folder / "evaluate" / "report.json").unlink()
    body = run_report(folder)
    assert body["tables"] == [] and body["counts"] == {"label": {"truncated": 3}}
    assert "no evaluation yet" in render_page(body)


def test_without_its_data_a_run_says_that_texts_are_missing(tmp_path):
    folder = finished_run(tmp_path / "run")
    (folder / "data" / "world" / "corpus.jsonl").unlink()
    body = run_report(folder)
    assert any("could not be read from here" in note for note in body["notes"])
    assert "first stage ▶ tuned reranker" in render_page(body)


def test_a_table_of_another_data_set_shows_that_data_sets_texts(tmp_path):
    """Query ids may be the same ones in both."""
    folder = finished_run(tmp_path / "run")
    other = Dataset([Passage("p0", "Elsewhere.")], [Query("q2", "Another question?")], {"q2": {"p0": 1.0}})
    write_dataset(tmp_path / "other", other)
    for name, run in (("untuned", Run()), ("tuned", Run({"q2": [("p0", 1.0)]}))):
        write_run(folder / "evaluate" / "other" / f"bm25.{name}.trec", run)
        (folder / "transfer" / "other").mkdir(parents=True, exist_ok=True)
        (folder / "transfer" / "other" / f"{name}.jsonl").write_text(json.dumps({"query_id": "q2", "text": name}))
    rows = [Row(f"{name} rewriter", {"X": {"q2": value}}, "bm25") for name, value in (("untuned", 0.0), ("tuned", 1.0))]
    table = Table("Rewriter on other, which no training has seen", ["X"], rows, before="untuned rewriter")
    recipe = {"data": "sample", "evaluation": {"transfer": [str(tmp_path / "other")]}}
    write_report(folder / "evaluate", [table], manifest={"recipe": recipe})
    (example,) = run_report(folder)["examples"]
    assert example["title"] == "other · bm25 · untuned rewriter ▶ tuned rewriter, by X"
    (item,) = example["items"]
    assert item["question"] == "Another question?"
    before, after = item["sides"]
    assert (before["passages"], before["rewrite"], after["rewrite"]) == ([], "untuned", "tuned")
    assert after["passages"][0]["text"] == "Elsewhere."


def test_passages_by_kind():
    rows = [UtilityLabel("q", (pid,), 1.0 * i, "ok", "u@1") for i, pid in enumerate("abcd")]
    found = by_kind(Labels(rows), "u", {"q": {"a": 1.0, "b": 0.0}}, {"q": {"c"}})
    assert found == {"gold": [0.0], "distractor": [1.0, 2.0], "random": [3.0]}


def test_reliability_by_hand():
    found = reliability([(0.2, 0.0), (0.4, 1.0), (0.9, 1.0), (0.7, 1.0)], bins=2, least=2)
    assert found["points"] == [[pytest.approx(0.3), 0.5, 2], [pytest.approx(0.8), 1.0, 2]]
    assert found["ece"] == pytest.approx(0.2)
    assert len(reliability([(0.5, 1.0)] * 23)["points"]) == 4


def test_token_weights_by_hand():
    evidence = {
        "grounded": {"tokens": ["a", "b"], "logprobs": [-1.0, -3.0]},
        "grounded_under_bare": {"tokens": ["a", "b"], "logprobs": [-5.0, -1.0]},
        "key": {"grounded": [True, False]},
    }
    assert weighted_tokens(evidence) == [
        {"text": "a", "weight": 1.0, "key": True},
        {"text": "b", "weight": -0.5, "key": False},
    ]
    assert weighted_tokens({"abstain": 0.1}) == []


def test_plots_escape_and_know_their_kinds():
    series = [{"name": "<script>$\\frac{", "points": [[1, 2.0], [2, 1.0]]}]
    svg = plot_svg({"kind": "lines", "title": '"><script>', "x": "</svg>", "y": "&", "series": series})
    assert "<script" not in svg and svg.count("</svg>") == 1
    assert "var(--s0)" in svg and "#0102" not in svg
    assert plot_svg({"kind": "lines", "title": "", "x": "", "y": "", "series": series}) == plot_svg(
        {"kind": "lines", "title": "", "x": "", "y": "", "series": series}
    )
    with pytest.raises(ConfigError, match="known: histogram"):
        plot_svg({"kind": "pie"})


def test_evaluation_imports_neither_matplotlib_nor_jinja():
    code = (
        "import sys, utilitune.evaluation, utilitune.evaluation.html, utilitune.evaluation.compare;"
        "sys.exit(bool({'matplotlib', 'jinja2', 'torch', 'ir_measures', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
