"""Stages are skipped when nothing changed, resumed when interrupted, made anew otherwise."""

import json

import pytest

from utilitune.errors import ConfigError
from utilitune.recipe import Recipe
from utilitune.recipe.stage import Stage, run_stage
from utilitune.recipe.workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f"name: t\nout: {tmp_path / 'out'}\ndata: {tmp_path / 'data'}\nretrievers: {{bm25: {{kind: bm25}}}}\n"
    )
    data = tmp_path / "data"
    data.mkdir()
    (data / "corpus.jsonl").write_text('{"_id":"p","text":"x"}\n')
    return Workspace(Recipe.load(path))


def stage(name, log, needs=(), settings=lambda recipe: {}, text="out", fail=False):
    def action(workspace):
        log.append(name)
        (workspace.folder(name) / "made").open("a").write(text)
        if fail:
            raise KeyboardInterrupt
        return {"rows": 1}

    return Stage(name, "test", needs, ("records",), settings, action)


def made(workspace, name):
    return (workspace.folder(name) / "made").read_text()


def test_an_unchanged_stage_is_skipped(workspace):
    log = []
    assert run_stage(stage("data", log), workspace) == "ran"
    assert run_stage(stage("data", log), workspace) == "unchanged"
    assert log == ["data"]
    record = json.loads((workspace.folder("data") / "stage.json").read_text())
    assert record["counts"] == {"rows": 1}
    assert record["status"] == "done"


def test_changed_settings_run_again_in_a_fresh_folder(workspace):
    log = []
    run_stage(stage("a", log, settings=lambda recipe: 1), workspace)
    assert run_stage(stage("a", log, settings=lambda recipe: 2), workspace) == "ran"
    assert made(workspace, "a") == "out"


def test_changed_input_files_run_again(workspace):
    log = []
    run_stage(stage("data", log), workspace)
    (workspace.recipe.data / "corpus.jsonl").write_text('{"_id":"p","text":"y"}\n')
    assert run_stage(stage("data", log), workspace) == "ran"


def test_damaged_outputs_run_again(workspace):
    log = []
    run_stage(stage("a", log), workspace)
    (workspace.folder("a") / "made").write_text("edited")
    assert run_stage(stage("a", log), workspace) == "ran"
    assert made(workspace, "a") == "out"


def test_downstream_follows_upstream_outputs_not_upstream_reruns(workspace):
    log = []
    run_stage(stage("a", log, settings=lambda recipe: 1), workspace)
    run_stage(stage("b", log, needs=("a",)), workspace)
    run_stage(stage("a", log, settings=lambda recipe: 2), workspace)
    assert run_stage(stage("b", log, needs=("a",)), workspace) == "unchanged"
    run_stage(stage("a", log, settings=lambda recipe: 3, text="other"), workspace)
    assert run_stage(stage("b", log, needs=("a",)), workspace) == "ran"


def test_an_interrupted_stage_keeps_its_folder(workspace):
    log = []
    with pytest.raises(KeyboardInterrupt):
        run_stage(stage("a", log, fail=True), workspace)
    assert run_stage(stage("a", log), workspace) == "ran"
    assert made(workspace, "a") == "outout"


def test_missing_inputs_are_named(workspace):
    with pytest.raises(ConfigError, match="'b' reads what 'a' writes"):
        run_stage(stage("b", [], needs=("a",)), workspace)


def test_a_stage_that_is_left_out_lets_others_run(workspace):
    log = []
    left = Stage("a", "test", (), (), lambda recipe: {}, lambda workspace: {}, lambda workspace: "no turns")
    assert run_stage(left, workspace) == "left out"
    assert run_stage(stage("b", log, needs=("a",)), workspace) == "ran"


def test_a_query_limit_picks_a_nested_fixed_subset(workspace, tmp_path):
    from utilitune.recipe.stages import STAGES

    data = workspace.recipe.data
    rows = [{"_id": f"c{i}_1", "text": "q", "history": []} for i in range(40)]
    (data / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_stage(STAGES["data"], workspace)
    few = [query.id for query in workspace.queries("train_questions", 5)]
    more = [query.id for query in workspace.queries("train_questions", 9)]
    assert more[:5] == few
    assert len(workspace.queries("train_questions")) + len(workspace.queries("test_questions")) == 40
    assert not set(workspace.split["train_questions"]) & set(workspace.split["test_questions"])
