"""What judges and studies wrote stands on the page of the run."""

from dataclasses import asdict

import pytest
from finished_run import finished_run

from utilitune.evaluation.html import render_page, run_report
from utilitune.evaluation.html.findings import findings
from utilitune.evaluation.html.plots import plot_svg
from utilitune.evaluation.html.study_plots import study_plots
from utilitune.evaluation.judge import Judgement
from utilitune.evaluation.judge.comparison import Comparison
from utilitune.evaluation.judge.human import HumanVerdict, by_group
from utilitune.evaluation.judge.win_rate import count_judgements
from utilitune.evaluation.latex import report_latex
from utilitune.evaluation.markdown import report_markdown
from utilitune.evaluation.study.correlation.ideal import Ideal, IdealStudy
from utilitune.evaluation.study.correlation.rank import Estimate
from utilitune.evaluation.study.correlation.study import Correlation
from utilitune.evaluation.study.separation import Separation
from utilitune.evaluation.study.signal_measures import ReciprocalRank, Share
from utilitune.evaluation.study.signal_study import SignalStudy, Timing, UtilitySignal
from utilitune.records import write_json, write_rows


def judgements(n, *systems):
    return [
        Judgement(f"q{i}", systems[0], other, order, "Overall", "a" if i % 3 else "b")
        for other in systems[1:]
        for i in range(n)
        for order in ("ab", "ba")
    ]


def signal():
    share = Share(10, 40, 30, 0, 10, (0.75,) * 10, 0.75, 0.6, 0.9, 8, 2, 0.1)
    rank = ReciprocalRank(10, 0, 0.8, 0.7, 0.9, 0.8, 0.4)
    apart = Separation(10, 40, 0.77, 0.7, 0.8, 0.75, 10, 0.3)
    none = Separation(0, 50, None, None, None, None, 0, None)
    one = UtilitySignal("question-gain", share, share, rank, apart, none, None, 0.1, 50, 0.2, 0.1, {}, 0)
    return SignalStudy([one], [], {"questions": 10}, Timing(1.0, 50, 50, 0, 0.02), ["Read me."], {})


def correlation(metric, k, value):
    estimate = {"value": value, "low": None if value is None else value - 0.1, "high": value}
    versus = (
        {"nDCG": {"difference": {"value": 0.2, "low": 0.1, "high": 0.3}, "relative": 0.667}} if metric != "nDCG" else {}
    )
    return {"metric": metric, "system": "bm25", "k": k, "spearman": estimate, "versus": versus}


CORRELATION = {
    "correlations": [
        correlation(metric, k, value)
        for metric, values in (("nDCG", (0.3, 0.25, 0.35)), ("UDCG", (0.5, None, 0.5)))
        for k, value in zip((None, 1, 5), values, strict=True)
    ],
    "position": {
        "length": 3,
        "questions": 7,
        "positions": [
            {
                "place": place,
                "right": {"value": 0.5, "low": 0.4, "high": 0.6},
                "abstained": {"value": 0.0, "low": 0.0, "high": 0.0},
                "metrics": {"nDCG": 1 / place},
            }
            for place in (1, 2)
        ],
    },
    "ideal": None,
    "counts": {"questions studied": 7},
    "notes": ["Of few questions."],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    run = finished_run(tmp_path_factory.mktemp("run"))
    write_json(run / "wins" / "win-rate.json", count_judgements(judgements(9, "a", "b", "c"), "strict").as_dict())
    people = [HumanVerdict(Comparison(f"q{i}", "?", "A", "B", "x", "yy"), "a") for i in range(9)]
    said = by_group(people, judgements(9, "A", "B"))
    write_json(run / "judge" / "agreement.json", {"groups": {name: each.as_dict() for name, each in said.items()}})
    write_rows(run / "judge" / "marks.jsonl", [{"mark": "CORRECT", "status": "ok"}, {"mark": None, "status": "failed"}])
    write_json(run / "studies" / "signal" / "signal.json", signal().as_dict())
    write_json(run / "studies" / "correlation.json", CORRELATION)
    return run


def test_every_finding_is_a_section(folder):
    found, notes = findings(folder)
    assert notes == []
    by_title = {each["title"]: each for each in found}
    assert list(by_title) == [
        "Win rate (wins/win-rate.json)",
        "Win rate, Bradley–Terry (wins/win-rate.json)",
        "Judge against people (judge/agreement.json)",
        "Answers, marked by a judge (judge/marks.jsonl)",
        "Which utility carries a signal (studies/signal/signal.json)",
        "Does the metric predict the answer? (studies/correlation.json)",
        "Place of the one relevant passage among 3, 7 questions (studies/correlation.json)",
    ]
    assert all(len(line) == len(each["head"]) for each in found for line in each["lines"])
    rates = by_title["Win rate (wins/win-rate.json)"]["lines"]
    assert [line[:3] for line in rates] == [["Overall", f"a against {other}", "9"] for other in "bc"]
    assert rates[0][3].startswith("0.667 [") and rates[0][6:] == ["1.000", "0.500"]
    people = by_title["Judge against people (judge/agreement.json)"]["lines"]
    assert people[0][1] == "strict" and people[0][2].startswith("0.667 [")
    assert people[-1][1:4] == ["(longer answer)", "0.000", "9"]
    assert by_title["Answers, marked by a judge (judge/marks.jsonl)"]["lines"] == [
        ["CORRECT", "1", "0.500"],
        ["failed", "1", "0.500"],
    ]
    (line,) = by_title["Which utility carries a signal (studies/signal/signal.json)"]["lines"]
    assert line == [
        *("question-gain", "0.750 [0.600, 0.900]", "0.750 [0.600, 0.900]", "0.800 [0.700, 0.900]"),
        *("0.770 [0.700, 0.800]", "–", "10"),
    ]
    predicted = by_title["Does the metric predict the answer? (studies/correlation.json)"]
    assert predicted["head"] == ["metric", "lists of", "mean ρ", "Δ to nDCG", "k=1", "k=5"]
    assert predicted["lines"] == [
        ["nDCG", "bm25", "0.300 [0.200, 0.300]", "–", "0.25", "0.35"],
        ["UDCG", "bm25", "0.500 [0.400, 0.500]", "+0.200 [+0.100, +0.300] (+67%)", "–", "0.50"],
    ]
    assert predicted["notes"][1:] == ["questions studied 7", "Of few questions."]


def test_they_are_on_the_page_and_in_markdown_and_latex(folder):
    body = run_report(folder) | {"plots": []}
    assert len(body["sections"]) == 7
    for render in (render_page, report_markdown, report_latex):
        text = render(body)
        for shown in ("Which utility carries a signal", "question-gain", "a against c", "Of few questions."):
            assert shown in text, (render, shown)


def test_a_correlation_study_is_drawn(folder):
    by_length, by_place = study_plots(folder)
    assert [(each["name"], each["points"]) for each in by_length["series"]] == [
        ("UDCG", [[5, 0.5]]),
        ("nDCG", [[1, 0.25], [5, 0.35]]),
    ]
    assert [(each["name"], each["points"]) for each in by_place["series"]] == [
        ("right answers", [[1, 0.5], [2, 0.5]]),
        ("nDCG", [[1, 1.0], [2, 0.5]]),
    ]
    assert all(plot_svg(plot).startswith("<svg") for plot in (by_length, by_place))


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("correlation.json", '{"rows": []}', "KeyError"),
        ("correlation.json", "[1]", "holds a list; expected an object"),
        ("signal.json", "{not json", "DataError"),
        ("win-rate.json", '{"convention": "strict", "pairs": [{"rates": []}]}', "KeyError"),
        ("agreement.json", '{"groups": {"x": 3}}', "TypeError"),
        ("marks.jsonl", '{"other": 1}\n', "KeyError"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_stops_nothing(tmp_path, name, text, why):
    run = finished_run(tmp_path / "run")
    (run / "odd").mkdir()
    (run / "odd" / name).write_text(text)
    body = run_report(run)
    assert [each["title"] for each in body["sections"]] == ["Answers, marked by a judge (judge/marks.jsonl)"]
    (note,) = [note for note in body["notes"] if "is not shown" in note]
    assert note.startswith(f"odd/{name} is not shown: ") and why in note


def test_a_correlation_study_of_ours_is_read(tmp_path):
    """The dataclasses of the study, as it writes them."""
    estimate = Estimate(0.4, 0.3, 0.5)
    rows = [Correlation("UDCG", "bm25", k, 9, 9, 4, estimate, estimate, {}, "", (1,)) for k in (None, 1)]
    rule = dict.fromkeys(field.name for field in Ideal.__dataclass_fields__.values())
    best = IdealStudy(
        **{
            **dict.fromkeys(field.name for field in IdealStudy.__dataclass_fields__.values()),
            "k": 3,
            "questions": 9,
            "rules": [Ideal(**{**rule, "rule": "eRAG", "right": estimate, "wrong": estimate, "abstained": estimate})],
        }
    )
    body = {"correlations": [asdict(row) for row in rows], "ideal": asdict(best), "counts": {}, "notes": []}
    write_json(tmp_path / "correlation.json", body)
    found, notes = findings(tmp_path)
    assert notes == []
    assert found[0]["lines"] == [["UDCG", "bm25", "0.400 [0.300, 0.500]", "0.40"]]
    assert found[1]["lines"] == [["eRAG", *["0.400 [0.300, 0.500]"] * 3]]
