"""Stages are skipped when nothing changed, resumed when interrupted, made anew otherwise; foreign files stay."""

import json

import pytest

from utilitune.errors import ConfigError
from utilitune.recipe.identities import with_imports
from utilitune.recipe.stage import Stage, run_stage
from utilitune.recipe.stages import STAGES
from utilitune.recipe.workspace import Workspace


@pytest.fixture
def workspace(recipe):
    return Workspace(recipe())


def stage(name, log, needs=(), keys=(), text="out", fail=False):
    def action(workspace):
        log.append(name)
        (workspace.folder(name) / "made").open("a").write(text)
        if fail:
            raise KeyboardInterrupt
        return {"rows": 1}

    return Stage(name, "test", needs, keys, ("records",), action)


def made(workspace, name):
    return (workspace.folder(name) / "made").read_text()


def test_an_unchanged_stage_is_skipped(workspace):
    log = []
    assert run_stage(stage("a", log), workspace) == "ran"
    assert run_stage(stage("a", log), workspace) == "unchanged"
    assert log == ["a"]
    record = json.loads((workspace.folder("a") / "stage.json").read_text())
    assert record["counts"] == {"rows": 1}
    assert record["status"] == "done"


def test_changed_settings_run_again_in_a_fresh_folder(workspace, recipe):
    log = []
    run_stage(stage("a", log, keys=("seed",)), workspace)
    assert run_stage(stage("a", log, keys=("seed",)), Workspace(recipe("seed=14"))) == "ran"
    assert made(workspace, "a") == "out"


def test_damaged_outputs_run_again(workspace):
    log = []
    run_stage(stage("a", log), workspace)
    (workspace.folder("a") / "made").write_text("edited")
    assert run_stage(stage("a", log), workspace) == "ran"
    assert made(workspace, "a") == "out"


def test_downstream_follows_upstream_outputs_not_upstream_reruns(workspace, recipe):
    log = []
    run_stage(stage("a", log, keys=("seed",)), workspace)
    run_stage(stage("b", log, needs=("a",)), workspace)
    other = Workspace(recipe("seed=14"))
    assert run_stage(stage("a", log, keys=("seed",)), other) == "ran"
    assert run_stage(stage("b", log, needs=("a",)), other) == "unchanged"
    run_stage(stage("a", log, keys=("seed",), text="other"), workspace)
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


def test_a_stage_that_is_left_out_lets_others_run_and_leaves_nothing_behind(workspace):
    log = []
    run_stage(stage("a", log), workspace)
    left = Stage("a", "test", (), (), (), lambda workspace: {}, lambda workspace: "no turns")
    assert run_stage(left, workspace) == "left out"
    assert [path.name for path in workspace.folder("a").iterdir()] == ["stage.json"]
    assert run_stage(stage("b", log, needs=("a",)), workspace) == "ran"


@pytest.mark.parametrize("record", [None, {"stage": "b", "status": "done"}, "no record"])
@pytest.mark.parametrize("left_out", [True, False])
def test_files_that_no_stage_wrote_are_never_removed(workspace, record, left_out):
    folder = workspace.folder("a")
    (folder / "precious").mkdir(parents=True)
    (folder / "precious" / "file").write_text("mine")
    if record is not None:
        (folder / "stage.json").write_text(json.dumps(record))
    left = Stage("a", "test", (), (), (), lambda workspace: {}, lambda workspace: "no turns")
    with pytest.raises(ConfigError, match="precious"):
        run_stage(left if left_out else stage("a", []), workspace)
    assert (folder / "precious" / "file").read_text() == "mine"


def test_a_query_limit_picks_a_nested_fixed_subset(workspace, recipe):
    data = workspace.recipe.data
    rows = [{"_id": f"c{i}_1", "text": "q", "history": []} for i in range(40)]
    (data / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (data / "qrels.tsv").unlink()
    auto = Workspace(
        workspace.recipe.model_copy(update={"split": workspace.recipe.split.model_copy(update={"by": "auto"})})
    )
    run_stage(STAGES["data"], auto)
    few = [query.id for query in auto.queries("train_questions", 5)]
    more = [query.id for query in auto.queries("train_questions", 9)]
    assert more[:5] == few
    assert len(auto.queries("train_questions")) + len(auto.queries("test_questions")) == 40
    assert not set(auto.split["train_questions"]) & set(auto.split["test_questions"])


def test_the_code_of_a_stage_is_what_it_calls_and_what_that_imports():
    assert with_imports(("retrieval",)) == ("generator", "records", "retrieval")
    for name in ("candidates", "reward", "pairs", "train-rewriter", "rewrite", "train-reranker"):
        assert "generator" in with_imports(STAGES[name].code), name
    for name in ("reward", "label", "utility", "answer"):
        assert "scoring" in with_imports(STAGES[name].code), name
