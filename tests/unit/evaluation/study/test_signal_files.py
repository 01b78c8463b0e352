"""The files of a study: figures are the same bytes, tables survive odd names, absent numbers stay blank."""

import csv
import io
import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from signal_world import Table, make_world

from utilitune.errors import ConfigError
from utilitune.evaluation import study_signal, write_signal
from utilitune.evaluation.study import plots
from utilitune.evaluation.study.signal_table import signal_text

ODD = "a|b <i> & $x_1$ \\alpha 東"


@pytest.fixture
def study(world, reader):
    numbers = {f"p{i}": float(i * 3 % 10) for i in range(10)}
    tables = [Table(ODD, numbers), Table("flat", dict.fromkeys(numbers, 0.5)), Table("few", {"p1": 1.0, "p2": 2.0})]
    return study_signal(world, reader, tables, max_failed=1.0)


def test_everything_is_written_and_can_be_read(study, tmp_path):
    paths = write_signal(tmp_path / "new" / "out", study)
    assert list(paths) == ["signal.json", "table.md", "pairs.csv", "signal.svg", "values.svg"]
    told = json.loads(paths["signal.json"].read_text())
    assert told["utilities"][0]["hard"]["share"] == study.signals[0].hard.share
    assert told["counts"]["pairs"] == 60
    rows = list(csv.DictReader(io.StringIO(paths["pairs.csv"].read_text())))
    assert len(rows) == 60
    assert [row["role"] for row in rows[:6]] == ["gold", *["hard"] * 4, "random"]
    for row, pair in zip(rows, study.pairs, strict=True):
        assert float(row[ODD]) == pair.utilities[ODD]
        assert (row["few"] == "") == ("few" not in pair.utilities)
        assert row["right"] == str(int(pair.right))
    for name in ("signal.svg", "values.svg"):
        drawn = "".join(ET.fromstring(paths[name].read_text()).itertext())
        assert ODD in drawn
        assert "flat" in drawn


def test_figures_are_the_same_bytes_and_hold_no_time(study, tmp_path):
    one, two = (write_signal(tmp_path / name, study) for name in "ab")
    for name in ("signal.svg", "values.svg"):
        text = one[name].read_bytes()
        assert text == two[name].read_bytes()
        assert b"dc:date" not in text


def test_a_study_without_numbers_can_be_drawn(world, reader, tmp_path):
    empty = study_signal(world, reader, [Table("none", {})], max_failed=1.0)
    paths = write_signal(tmp_path, empty)
    assert "no number" in "".join(ET.fromstring(paths["values.svg"].read_text()).itertext())
    assert "| none | – |" in paths["table.md"].read_text()
    assert empty.signal("none").std is None


def test_table_says_what_it_stands_on(study, tmp_path):
    text = signal_text(study)
    assert text.splitlines()[0].split("  ")[0].strip() == "utility"
    assert "10 of 10 questions, 60 pairs; generator reader; seed 13; 10 answers right, 50 wrong" in text
    assert "a random order gives MRR 0.408" in text
    assert "note: few:" in text
    whole = write_signal(tmp_path, study)["table.md"].read_text()
    head, _, *lines = [line for line in whole.splitlines() if line.startswith("|")][:5]
    assert {line.replace("\\|", "").count("|") for line in (head, *lines)} == {head.count("|")}
    assert "<i>" not in whole
    assert "| distractors left out: contain a gold answer | 0 |" in whole


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_one_panel_a_utility_and_no_empty_one(count):
    drawn = plots.histograms_svg({f"u{i}": {"gold": [0.1, 0.7], "hard": []} for i in range(count)}, label="share")
    panels = [each for each in ET.fromstring(drawn).iter() if each.get("id", "").startswith("axes_")]
    assert len(panels) == count
    assert "hard" not in drawn, "a kind without values is not drawn"


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install matplotlib"):
        plots.check_plots()
    with pytest.raises(ConfigError, match="pip install matplotlib"):
        plots.dots_svg(["a"], {"x": [plots.Dot(0.5)]}, label="share", chance=None)


def test_evaluation_is_imported_without_matplotlib_scipy_or_torch():
    code = (
        "import sys, utilitune.evaluation as e; e.study_signal, e.SignalStudy, e.write_signal;"
        "sys.exit(', '.join({'torch', 'transformers', 'matplotlib', 'scipy', 'sklearn'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_drawing_leaves_the_callers_matplotlib_alone(study):
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.dots_svg(["a"], {"x": [plots.Dot(0.5, 0.4, 0.6)]}, label="share", chance=0.5)
    assert dict(matplotlib.rcParams) == before


def test_world_is_what_the_tests_think():
    assert make_world().queries[3].answers == ("R3",)
