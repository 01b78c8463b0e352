"""``win-rate`` and ``judge`` on the command line, with a stand-in for the judge model."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import utilitune.generator
from utilitune.cli import app
from utilitune.errors import ConfigError, DataError, ThresholdError
from utilitune.evaluation.judge import read_judgements
from utilitune.records import Answer, write_answers

sys.path.insert(0, str(Path(__file__).parents[1] / "evaluation" / "judge"))

from fake_judge import FakeJudge


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("data/corpus.jsonl").write_text('{"_id": "p", "title": "", "text": "Tal lies by the Velda."}\n')
    questions = [{"_id": str(n), "text": f"question {n}?", "answers": [f"word{n}"]} for n in range(4)]
    Path("data/queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    Path("data/qrels.tsv").write_text("query-id\tcorpus-id\tscore\n0\tp\t1\n")
    # One file backwards and with a question less: answers meet by id.
    for name, order, words in (("long", range(4), 3), ("short", (3, 2, 1), 1)):
        texts = {n: " ".join([f"word{n}", *["more"] * (words - 1)]) for n in order}
        write_answers(f"{name}.jsonl", [Answer(str(n), (), text, False, None) for n, text in texts.items()])
    return tmp_path


def use(monkeypatch, judge):
    monkeypatch.setattr(utilitune.generator, "load_generator", lambda spec: judge)
    return judge


def run(*words):
    """Run a verb; errors for users come out as they are raised."""
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def raised(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code, done.output
    return done.exception


WIN = ("win-rate", "data", "--answers", "long.jsonl", "--answers", "s=short.jsonl", "--out", "wins", "--quiet")


def test_win_rate_writes_judgements_table_and_numbers(world, monkeypatch):
    use(monkeypatch, FakeJudge())
    done = run(*WIN)
    assert done.exit_code == 0
    assert "missing: long 0, s 1" in done.output and "Comprehensiveness" in done.output
    judgements = read_judgements("wins/judgements.jsonl")
    assert len(judgements) == 3 * 2 * 4 and {j.query_id for j in judgements} == {"1", "2", "3"}
    found = json.loads(Path("wins/win-rate.json").read_text())
    assert found["convention"] == "debiased" and found["compared"]["missing"] == {"long": 0, "s": 1}
    overall = next(each for each in found["pairs"] if each["dimension"] == "Overall")
    assert {rate["convention"]: rate["win_rate"] for rate in overall["rates"]} == {
        "strict": 1.0,
        "hirag": 1.0,
        "debiased": 1.0,
    }
    assert found["manifest"]["generator"]["model"] == "fake" and found["manifest"]["answers"]["s"]["sha256"]
    assert Path("wins/table.txt").read_text().strip() in done.output


def test_win_rate_resumes(world, monkeypatch):
    use(monkeypatch, FakeJudge())
    run(*WIN, "--limit", "2")
    again = use(monkeypatch, FakeJudge())
    run(*WIN)
    # Question 1 was there: four dimensions in two orders of two more questions are asked.
    assert len(again.asked) == 16


def test_published_convention(world, monkeypatch):
    use(monkeypatch, FakeJudge(bias=5.0, replies=lambda *_: "A"))
    done = run(*WIN, "--reading", "letter", "--convention", "hirag", "--dimension", "overall")
    assert "hirag: wins over parsed judgements" in done.output
    assert "0.500 [0.500, 0.500]" in done.output
    assert "warning: Overall, long against s: only 0 of 3 pairs" in done.output


def test_unreadable_judge_stops_after_its_replies_are_written(world, monkeypatch):
    use(monkeypatch, FakeJudge(replies=lambda *_: "well"))
    error = raised(*WIN, "--reading", "json")
    assert isinstance(error, ThresholdError) and "24 of 24" in str(error)
    assert {each.raw for each in read_judgements("wins/judgements.jsonl")} == {"well"}


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (("--convention", "mean"), ConfigError, "known: strict, hirag, debiased"),
        (("--answers", "s=long.jsonl"), ConfigError, "found the name 's' twice"),
        (("--against", "x"), ConfigError, "no system is named 'x'"),
        (("--reading", "x"), ConfigError, "known: probability"),
        (("--dimension", "x"), ConfigError, "known: Comprehensiveness"),
    ],
)
def test_wrong_options(world, monkeypatch, words, kind, message):
    use(monkeypatch, FakeJudge())
    error = raised(*WIN, *words)
    assert isinstance(error, kind) and message in str(error)
    assert not Path("wins/judgements.jsonl").exists()


def test_judge_agreement(world, monkeypatch):
    rows = [
        {
            "_id": str(n),
            "question": "q?",
            "answer_a": "a b c",
            "answer_b": "a",
            "label": "AB"[n % 2],
            "kind": f"k{n % 2}",
        }
        for n in range(6)
    ]
    Path("human.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    use(monkeypatch, FakeJudge())
    done = run("judge", "agreement", "human.jsonl", "--out", "report", "--by", "kind", "--quiet")
    assert done.exit_code == 0 and "people: A 3, B 3, tie 0" in done.output
    groups = json.loads(Path("report/agreement.json").read_text())["groups"]
    right = {
        name: {each["convention"]: each["right"] for each in found["conventions"]} for name, found in groups.items()
    }
    assert right["(all)"]["strict"] == 0.5 and right["k0"]["strict"] == 1.0 and right["k1"]["debiased"] == 0.0
    assert len(read_judgements("report/judgements.jsonl")) == 12
    run("judge", "agreement", "human.jsonl", "--out", "some", "--sample", "2", "--quiet")
    assert len(read_judgements("some/judgements.jsonl")) == 4
    error = raised("judge", "agreement", "data/queries.jsonl", "--out", "no")
    assert isinstance(error, DataError) and "'label' is missing" in str(error)


def test_judge_answers(world, monkeypatch):
    class Marker(FakeJudge):
        def odds(self, prompt):
            return 0.0

        def scored(self, prompt, text):
            return super().scored(
                prompt, text.replace("INCORRECT", "B").replace("ABSTAINED", "B").replace("CORRECT", "A")
            )

        def shown(self, prompt):
            return "", ""

    use(monkeypatch, Marker())
    done = run("judge", "answers", "data", "--answers", "long.jsonl", "--out", "marks.jsonl", "--quiet")
    assert "CORRECT 4" in done.output and "judge against contains: agreement 1.000" in done.output
    assert len(Path("marks.jsonl").read_text().splitlines()) == 4
