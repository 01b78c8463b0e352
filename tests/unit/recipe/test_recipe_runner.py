"""Running a part, running twice at once, and folders inside each other."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from urllib.error import HTTPError

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.errors import ConfigError, DataError
from utilitune.recipe import run_recipe
from utilitune.recipe.hub import missing_models
from utilitune.recipe.runner import held
from utilitune.recipe.workspace import Workspace


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UTILITUNE_CACHE", str(tmp_path / "cache"))


FIRST = ["data", "index", "retrieve"]


def test_only_runs_what_is_named_on_inputs_that_are_up_to_date(recipe):
    assert run_recipe(recipe(), only=FIRST) == dict.fromkeys(FIRST, "ran")
    assert run_recipe(recipe(), only=["retrieve"]) == {"retrieve": "unchanged"}
    assert run_recipe(recipe("reranker.depth=3"), only=["retrieve"]) == {"retrieve": "ran"}


@pytest.mark.parametrize(
    ("override", "stage"), [("retrievers.bm25.k1=5", "index"), ("split.by=conversation", "data"), ("seed=14", "data")]
)
def test_only_refuses_inputs_of_other_settings(recipe, override, stage):
    run_recipe(recipe(), only=FIRST)
    with pytest.raises(ConfigError, match=f"stage '{stage}' .* --only {stage}"):
        run_recipe(recipe(override), only=["retrieve"])


def test_only_refuses_inputs_of_other_data_and_damaged_ones(tiny, recipe):
    run_recipe(recipe(), only=FIRST)
    ids = recipe().out / "index" / "bm25" / "ids.json"
    whole = ids.read_text()
    ids.write_text("[]")
    with pytest.raises(ConfigError, match="stage 'index'"):
        run_recipe(recipe(), only=["retrieve"])
    ids.write_text(whole)
    assert run_recipe(recipe(), only=["retrieve"]) == {"retrieve": "unchanged"}
    corpus = tiny / "data" / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("Aro", "Aroo"))
    with pytest.raises(ConfigError, match="stage 'data'"):
        run_recipe(recipe(), only=["retrieve"])


def test_only_before_anything_ran_names_the_first_stage(recipe):
    with pytest.raises(ConfigError, match="stage 'data'"):
        run_recipe(recipe(), only=["retrieve"])
    with pytest.raises(ConfigError, match=r"unknown stage.*retrive.*retrieve"):
        run_recipe(recipe(), only=["retrive"])


def test_data_in_the_folder_of_a_stage_is_refused_and_stays(tiny, recipe):
    (tiny / "out").mkdir()
    (tiny / "data").rename(tiny / "out" / "data")
    with pytest.raises(ConfigError, match="which stage 'data' empties"):
        run_recipe(recipe(f"data={tiny}/out/data"))
    assert (tiny / "out" / "data" / "corpus.jsonl").exists()


@pytest.mark.parametrize("out", ["data", "data/out"])
def test_an_output_folder_inside_the_data_is_refused(tiny, recipe, out):
    before = sorted((tiny / "data").rglob("*"))
    with pytest.raises(ConfigError, match="lies inside data"):
        run_recipe(recipe(f"out={tiny}/{out}"))
    assert sorted((tiny / "data").rglob("*")) == before


def test_another_run_of_the_same_folder_is_refused_by_name(recipe):
    out = recipe().out
    code = f"from pathlib import Path; from utilitune.recipe.runner import held\nwith held(Path({str(out)!r})): pass"
    with held(out):
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert other.returncode != 0
    assert f"in use by another run (process {os.getpid()} on " in other.stderr
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_an_index_of_another_corpus_is_refused(tiny, recipe):
    run_recipe(recipe(), only=FIRST)
    corpus = tiny / "data" / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("Aro", "Aroo"))
    with pytest.raises(DataError, match="index of another corpus"):
        _ = Workspace(recipe()).retrievers


def test_bad_lines_stop_the_run_or_are_counted(tiny, recipe):
    corpus = tiny / "data" / "corpus.jsonl"
    corpus.write_text(corpus.read_text() + "{broken\n")
    with pytest.raises(DataError, match=r"corpus.jsonl:7"):
        run_recipe(recipe(), only=["data"])
    assert run_recipe(recipe("on_bad_line=skip"), only=["data"]) == {"data": "ran"}
    record = json.loads((recipe().out / "data" / "stage.json").read_text())
    assert record["counts"]["bad line: skipped"] == 1
    assert record["counts"]["passages"] == 6


def test_the_record_says_what_made_the_outputs(recipe):
    run_recipe(recipe(), only=FIRST)
    data, index = (json.loads((recipe().out / name / "stage.json").read_text())["inputs"] for name in ("data", "index"))
    assert set(data["files"]) == {"corpus.jsonl", "queries.jsonl", "qrels.tsv"}
    assert set(index["upstream"]) == {"data"}
    assert index["libraries"]["bm25s"]
    assert index["settings"]["retrievers"]["bm25"]["k1"] == 0.9


MEASURED = {"label-test", "fit-theta", "rerank", "utility", "answer", "train-second", "answer-second"}


@pytest.mark.parametrize(
    ("gone", "left_out"),
    [
        ("test", {"rewrite", "best-of", *MEASURED}),
        (
            "train",
            {
                *("candidates", "reward", "pairs", "agreement", "train-rewriter", "rewrite", "best-of"),
                *("retrieve", "label", "train-reranker", *MEASURED),
                *("warm-up", "label-rivals", "train-rivals", "label-second"),
            },
        ),
    ],
)
def test_an_empty_part_leaves_out_what_reads_it(tiny, recipe, gone, left_out):
    from utilitune.recipe.stages import STAGES

    queries = tiny / "data" / "queries.jsonl"
    kept = [line for line in queries.read_text().splitlines() if f'"split": "{gone}"' not in line]
    queries.write_text("\n".join(kept) + "\n")
    (tiny / "data" / "qrels.tsv").unlink()
    run_recipe(recipe(), only=["data"])
    every = [
        *("reranker.rivals=[gold]", "reranker.warm_up={retriever: bm25, queries: 2}", "reranker.oracle=true"),
        *(f"reranker.second_generator={tiny / 'reader'}", "evaluation.theta_queries=2", "rewriter.best_of=1"),
    ]
    workspace = Workspace(recipe(*every))
    asked = set(STAGES) - {
        "train-sft",
        "resample",
        "train-grpo",
        "yardsticks",
        "transfer",
        "best-of-transfer",
        "answer-rewrites",
    }
    assert {name for name in asked if STAGES[name].left_out(workspace)} == left_out


def test_what_a_section_that_is_off_names_is_not_looked_for(recipe):
    off = recipe("rewriter={enabled: false, base: ./nowhere}", "reranker={enabled: false, utilities: [nonsense]}")
    outcomes = run_recipe(off)
    assert {name for name, outcome in outcomes.items() if outcome == "ran"} == {"data", "index", "evaluate"}
    notes = json.loads((off.out / "evaluate" / "report.json").read_text())["notes"]
    assert notes == [
        "Stage 'rewrite' was left out: rewriter.enabled is false.",
        "Stage 'rerank' was left out: reranker.enabled is false.",
    ]


def test_a_wrong_utility_of_the_user_stops_the_run_before_the_first_stage(tiny, recipe):
    named = recipe(f"reranker.utilities=['{tiny}/own.py:Missing']")
    assert not (tiny / "imported").exists()
    with pytest.raises(ConfigError, match="no class 'Missing'"):
        run_recipe(named)
    assert not (named.out / "data").exists()


def set_splits(folder, *values):
    path = folder / "queries.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row, value in zip(rows, values, strict=False):
        row["split"] = value
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("by", ["auto", "field"])
def test_another_value_of_the_split_field_leaves_its_queries_out(tiny, recipe, by, capsys):
    set_splits(tiny / "data", "dev", "dev")
    run_recipe(recipe(f"split.by={by}"), only=["data"])
    parts = Workspace(recipe()).split
    assert parts["train_questions"] == ["q1", "q2", "q3"]
    assert parts["test_questions"] == ["q4", "q5"]
    assert "2 of 12 queries are neither 'train' nor 'test'" in capsys.readouterr().err


def test_a_split_field_that_some_lack(tiny, recipe, capsys):
    set_splits(tiny / "data", None)
    with pytest.raises(DataError, match=r"split\.by is 'field'"):
        run_recipe(recipe(), only=["data"])
    run_recipe(recipe("split.by=auto"), only=["data"])
    assert "only 11 of 12 queries have a field 'split'" in capsys.readouterr().err


def test_an_interrupted_sample_is_written_again(recipe, monkeypatch):
    import utilitune.sample

    write_sample = utilitune.sample.write_sample

    def interrupted(*args, **kwargs):
        write_sample(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(utilitune.sample, "write_sample", interrupted)
    sample = recipe("data=sample")
    with pytest.raises(KeyboardInterrupt):
        run_recipe(sample, only=["data"])
    monkeypatch.undo()
    assert run_recipe(sample, only=["data"]) == {"data": "ran"}


def dry_run(folder, *overrides):
    settings = [word for override in overrides for word in ("--set", override)]
    return CliRunner().invoke(app, ["run", str(folder / "recipe.yaml"), "--dry-run", *settings])


def test_a_dry_run_looks_for_what_the_run_needs_and_writes_nothing(tiny, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    before = sorted(tiny.rglob("*"))
    done = dry_run(tiny)
    assert done.exit_code == 0, done.exception
    assert "train-rewriter: " in done.stdout
    (tiny / "file").write_text("")
    for overrides, parts in (
        (
            ["data=nowhere", "generator=nope"],
            ("2 problem(s)", "data: nowhere is not a folder", "generator: model 'nope'"),
        ),
        (["reranker.base=not a model"], ("reranker.base: model 'not a model' is neither a folder nor a Hub id",)),
        ([f"out={tiny}/data/out"], ("lies inside data",)),
        ([f"out={tiny}/file"], ("is a file",)),
    ):
        failed = dry_run(tiny, *overrides).exception
        assert isinstance(failed, ConfigError), failed
        assert all(part in str(failed) for part in parts), failed
    (tiny / "file").unlink()
    # Digests of model folders are remembered in the cache.
    assert [path for path in sorted(tiny.rglob("*")) if "cache" not in path.relative_to(tiny).parts] == before


def test_the_hub_is_asked_for_what_is_not_here(monkeypatch):
    asked = []
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")

    def urlopen(request, timeout):
        asked.append(request.full_url.removeprefix("http://127.0.0.1:9/api/models/"))
        if "gone" in request.full_url:
            raise HTTPError(request.full_url, 404, "not found", {}, None)
        return nullcontext()

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    named = {"a": "some/model", "b": "some/gone", "c": "some/gone", "d": "packaged:x"}
    found = missing_models(named)
    assert [line.partition(":")[0] for line in found] == ["b", "c"]
    assert "HTTP 404" in found[0]
    assert asked == ["some/model", "some/gone"]
    monkeypatch.undo()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert "cannot be reached" in missing_models({"a": "some/model"})[0]
