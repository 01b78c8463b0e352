"""``utilitune answer``: prompt, threshold, and the manifest beside the answers."""

import json

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.generator import load_prompt
from utilitune.records import file_hash, read_answers


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UTILITUNE_CACHE", str(tmp_path / "cache"))
    rows = {
        "corpus": [{"_id": f"p{i}", "text": f"Town {i} is on the river R{i}."} for i in range(3)],
        "queries": [{"_id": f"q{i}", "text": f"Which river is town {i} on?", "answers": [f"R{i}"]} for i in range(3)],
    }
    (tmp_path / "data").mkdir()
    for name, own in rows.items():
        (tmp_path / "data" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    (tmp_path / "data" / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq0\tp0\t1\n")
    (tmp_path / "mine.trec").write_text("".join(f"q{i} Q0 p{i} 1 1.0 mine\n" for i in range(3)))
    return tmp_path


def answer(*words):
    return CliRunner().invoke(app, ["answer", "data", "--run", "mine.trec", "--out", "a.jsonl", *map(str, words)])


def test_the_prompt_is_a_choice_and_the_manifest_says_which(here, model):
    words = ("-g", model, "-k", 1, "--batch-tokens", 128)
    assert answer(*words).exit_code == 0
    first = json.loads((here / "a.manifest.json").read_text())["manifest"]
    plain = list(read_answers(here / "a.jsonl"))
    assert answer(*words, "--prompt", "answer-abstain").exit_code == 0
    second = json.loads((here / "a.manifest.json").read_text())["manifest"]
    assert [first["prompt"]["name"], second["prompt"]["name"]] == ["answer", "answer-abstain"]
    assert second["prompt"]["sha256"] == load_prompt("answer-abstain").hash != first["prompt"]["sha256"]
    assert second["answers_sha256"] == file_hash(here / "a.jsonl") and second["run_sha256"] == file_hash("mine.trec")
    assert second["counts"]["questions"] == second["counts"]["answers"] == len(plain) == 3
    assert second["generator"]["model"] and second["k"] == 1
    assert [each.answer for each in read_answers(here / "a.jsonl")] != [each.answer for each in plain]


def test_a_prompt_that_is_not_there_is_refused(here, model):
    done = answer("-g", model, "--prompt", "no-such-prompt")
    assert done.exit_code != 0 and not (here / "a.jsonl").exists()
