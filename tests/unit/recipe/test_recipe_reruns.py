"""Which of the real stages run again when a recipe key, an input file, a model folder, a prompt or a utility changes.

``data``, ``index`` and ``retrieve`` really run; of the others, which need models, the fingerprint says it.
"""

import json
import os
import shutil

import pytest

from utilitune.recipe import stage as stage_module
from utilitune.recipe.schema import Recipe
from utilitune.recipe.stage import dependencies, fingerprint, is_current, run_stage, stage_files
from utilitune.recipe.stage_folder import output_hash
from utilitune.recipe.stages import STAGES
from utilitune.recipe.workspace import Workspace

REAL = ("data", "index", "retrieve")
REWRITER = {"candidates", "reward", "pairs", "agreement", "train-rewriter", "rewrite"}
AFTER_LABEL = {"train-reranker", "rerank", "utility", "answer", "evaluate"}
AFTER_RETRIEVE = {"label", *AFTER_LABEL}
ASKED = {
    *("train-sft", "resample", "train-grpo", "yardsticks", "best-of", "answer-rewrites", "transfer"),
    "best-of-transfer",
    *(
        "warm-up",
        "label-rivals",
        "train-rivals",
        "label-test",
        "fit-theta",
        "label-second",
        "train-second",
        "answer-second",
    ),
}
"""Stages that the tiny recipe does not ask for."""
ALL = set(STAGES) - ASKED


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UTILITUNE_CACHE", str(tmp_path / "cache"))


def pretend(stage, workspace):
    """Leave behind what a finished stage does, with new outputs."""
    folder = workspace.folder(stage.name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "made").write_bytes(os.urandom(8))
    record = {
        "stage": stage.name,
        "status": "done",
        "fingerprint": fingerprint(dependencies(stage, workspace)),
        "outputs": output_hash(folder),
    }
    (folder / "stage.json").write_text(json.dumps(record))


def run(recipe):
    """Run the recipe; return the names of the stages that were not skipped."""
    workspace = Workspace(recipe)
    ran = set()
    for name, stage in STAGES.items():
        if name in REAL:
            if run_stage(stage, workspace) == "ran":
                ran.add(name)
        elif stage.left_out(workspace) is not None:
            run_stage(stage, workspace)
        elif not is_current(stage, workspace):
            pretend(stage, workspace)
            ran.add(name)
    return ran


def test_the_first_run_runs_all_and_the_second_none(recipe):
    assert run(recipe()) == ALL
    assert run(recipe()) == set()


KEYS = {
    "name=other": {"evaluate"},
    "about=other": {"evaluate"},
    "seed=14": ALL - {"index"},
    "on_bad_line=skip": {"data", "evaluate"},
    "split.test=0.4": {"data", "evaluate"},
    "sample.seed=8": {"data", "evaluate"},
    "generator=packaged:gemma3-270m": {
        "reward",
        "pairs",
        "agreement",
        "train-rewriter",
        "rewrite",
        "label",
        *AFTER_LABEL,
    },
    "retrievers.bm25.k1=1.2": ALL - {"data", "candidates"},
    "rewriter.base=packaged:smollm2-135m-instruct": {*REWRITER, "evaluate"},
    "rewriter.train_turns=3": {*REWRITER, "evaluate"},
    "rewriter.max_new_tokens=20": {*REWRITER, "evaluate"},
    "rewriter.candidates.n=2": {*REWRITER, "evaluate"},
    "rewriter.reward.k=1": {*REWRITER, "evaluate"} - {"candidates"},
    "rewriter.reward.scale=raw": {*REWRITER, "evaluate"} - {"candidates"},
    "rewriter.pairs.margin=0.1": {"pairs", "agreement", "train-rewriter", "rewrite", "evaluate"},
    "rewriter.training.lr=0.1": {"train-rewriter", "rewrite", "evaluate"},
    "rewriter.test_turns=1": {"rewrite", "evaluate"},
    "rewriter.methods=[sft, dpo]": {"train-sft", "train-rewriter", "rewrite", "evaluate"},
    "rewriter.methods=[dpo, grpo]": {"train-rewriter", "train-grpo", "rewrite", "evaluate"},
    "rewriter.yardsticks=[gold-rank]": {"yardsticks", "rewrite", "evaluate"},
    "rewriter.best_of=2": {"best-of", "evaluate"},
    "reranker.base=packaged:all-minilm-l6-v2": AFTER_LABEL,
    "reranker.depth=3": {"retrieve", *AFTER_RETRIEVE},
    "reranker.train_queries=2": {"retrieve", *AFTER_RETRIEVE},
    "reranker.test_queries=1": {"retrieve", *AFTER_RETRIEVE},
    "reranker.utilities=[entropy-drop]": AFTER_RETRIEVE,
    "reranker.training.epochs=1": AFTER_LABEL,
    "reranker.train_depth=3": {"label", *AFTER_LABEL},
    "reranker.rivals=[gold]": {"label-rivals", "train-rivals", "rerank", "utility", "answer", "evaluate"},
    "reranker.warm_up={retriever: bm25, queries: 2}": {"warm-up", *AFTER_LABEL},
    "reranker.untrained=true": {"rerank", "utility", "answer", "evaluate"},
    "reranker.interpolate=true": {"rerank", "utility", "answer", "evaluate"},
    "reranker.oracle=true": {"label-test", "utility", "answer", "evaluate"},
    "reranker.second_generator=packaged:gemma3-270m": {"label-second", "train-second", "answer-second", "evaluate"},
    "evaluation.theta_queries=2": {"fit-theta", "evaluate"},
    "evaluation.distraction=true": {"answer", "evaluate"},
    "evaluation.answer_k=[1, 3]": {"answer", "evaluate"},
    "evaluation.udcg_k=3": {"utility", "evaluate"},
    "evaluation.answer_k=1": {"answer", "evaluate"},
    "evaluation.rewriter_answer_k=1": {"answer-rewrites", "evaluate"},
    "evaluation.rewriter_measures=[AP]": {"evaluate"},
    "evaluation.reranker_measures=[AP]": {"evaluate"},
}


@pytest.mark.parametrize(("override", "expected"), KEYS.items(), ids=KEYS)
def test_a_recipe_key_runs_what_reads_it_and_nothing_else(recipe, override, expected):
    run(recipe())
    assert run(recipe(override)) == expected
    assert run(recipe(override)) == set()


def test_a_second_round_leaves_the_first_one_and_the_imitation_alone(recipe):
    methods = "rewriter.methods=[sft, dpo]"
    run(recipe(methods))
    again = recipe(methods, "rewriter.resample={n: 2}")
    assert run(again) == {"resample", "agreement", "train-rewriter", "rewrite", "evaluate"}


def leaves(prefix, value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(f"{prefix}.{name}" if prefix else name, inner)
    else:
        yield prefix


def test_every_recipe_key_is_read_by_a_stage_that_does_the_work(recipe):
    read = {key for name, stage in STAGES.items() if name != "evaluate" for key in stage.keys}
    unread = {
        key
        for key in leaves("", recipe().model_dump(mode="json"))
        if not any(f"{key}.".startswith(f"{one}.") for one in read)
    }
    assert unread == {
        *("name", "about", "out", "rewriter.enabled", "reranker.enabled"),
        *("evaluation.rewriter_measures", "evaluation.reranker_measures"),
    }
    assert set(STAGES["evaluate"].keys) == set(Recipe.model_fields)


def append(path, text):
    path.write_text(path.read_text() + text)


def test_a_changed_corpus_runs_everything_that_reads_it(tiny, recipe):
    run(recipe())
    append(tiny / "data" / "corpus.jsonl", '{"_id": "p9", "text": "Aro lies on river number 0, they say"}\n')
    assert run(recipe()) == ALL
    assert run(recipe()) == set()


def test_changed_judgements_reach_the_report(tiny, recipe):
    run(recipe())
    append(tiny / "data" / "qrels.tsv", "q5\tp0\t1\n")
    assert {"data", "evaluate"} <= run(recipe())


def test_a_changed_file_of_a_transfer_set_is_seen(tiny, recipe):
    shutil.copytree(tiny / "data", tiny / "away")
    asked = f"evaluation.transfer=[{tiny / 'away'}]"
    run(recipe())
    assert run(recipe(asked)) == {"transfer", "evaluate"}
    # Judgements change no rewrite and no index: the stage that reads them must see it by itself.
    before = dependencies(STAGES["evaluate"], Workspace(recipe(asked)))
    append(tiny / "away" / "qrels.tsv", "c5_2\tp0\t1\n")
    after = dependencies(STAGES["evaluate"], Workspace(recipe(asked)))
    assert {part for part in before if before[part] != after[part]} == {"files"}
    assert run(recipe(asked)) == {"transfer", "evaluate"}
    corpus = tiny / "away" / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("river", "stream"))
    assert run(recipe(asked)) == {"transfer", "evaluate"}


@pytest.mark.parametrize(
    "change", ["rewriter.best_of=2", "rewriter.reward.scale=raw", "rewriter.candidates.temperature=0.5"]
)
def test_the_best_on_other_data_is_chosen_anew_and_its_indexes_stay(tiny, recipe, change):
    shutil.copytree(tiny / "data", tiny / "away")
    asked = (f"evaluation.transfer=[{tiny / 'away'}]", "rewriter.best_of=1")
    run(recipe(*asked))
    stages = [STAGES[name] for name in ("transfer", "best-of-transfer")]
    before, after = (
        [dependencies(stage, Workspace(recipe(*asked, *more)))["settings"] for stage in stages]
        for more in ((), (change,))
    )
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]
    assert run(recipe(*asked)) == set()


def test_the_modules_that_a_stage_takes_functions_from_count():
    names = {path.stem for path in stage_files(STAGES["transfer"])}
    assert names == {"transfer", "rewriter", "rewriter_training", "rewriter_use", "data", "left_out"}
    assert all(path.is_file() for stage in STAGES.values() for path in stage_files(stage))


def test_checkpoints_at_any_depth_are_no_outputs(tmp_path):
    (tmp_path / "gold-rank" / "dpo" / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    (tmp_path / "gold-rank" / "dpo" / "adapter").write_text("x")
    before = output_hash(tmp_path)
    (tmp_path / "gold-rank" / "dpo" / "checkpoints" / "checkpoint-1" / "optimizer.pt").write_text("x")
    assert output_hash(tmp_path) == before
    (tmp_path / "checkpoint.txt").write_text("an output, whatever it is called")
    assert output_hash(tmp_path) != before


def test_changed_answers_reach_the_report(tiny, recipe):
    run(recipe())
    path = tiny / "data" / "queries.jsonl"
    path.write_text(path.read_text().replace("river 5", "river five"))
    assert {"data", "utility", "answer", "evaluate"} <= run(recipe())


FILES = {
    "reader/model.safetensors": {"reward", "pairs", "agreement", "train-rewriter", "rewrite", "label", *AFTER_LABEL},
    "reader/config.json": {"reward", "pairs", "agreement", "train-rewriter", "rewrite", "label", *AFTER_LABEL},
    "reader/chat_template.jinja": {"reward", "pairs", "agreement", "train-rewriter", "rewrite", "label", *AFTER_LABEL},
    "writer/model.safetensors": {*REWRITER, "evaluate"},
    "encoder/model.safetensors": AFTER_LABEL,
    "encoder/1_Pooling/config.json": AFTER_LABEL,
    "prompt.yaml": {*REWRITER, "evaluate"} - {"candidates"},
    "own.py": AFTER_RETRIEVE,
}


@pytest.mark.parametrize(("path", "expected"), FILES.items(), ids=FILES)
def test_what_a_recipe_names_counts_by_its_content(tiny, recipe, path, expected):
    run(recipe())
    file = tiny / path
    file.parent.mkdir(exist_ok=True)
    file.write_text((file.read_text() if file.exists() else "") + "\n# changed\n")
    assert run(recipe()) == expected
    assert run(recipe()) == set()


def test_another_library_version_runs_what_computes_with_it(recipe, monkeypatch):
    run(recipe())
    installed = stage_module.library_versions

    def upgraded(packages):
        return {name: "9" if name == "trl" else found for name, found in installed(packages).items()}

    monkeypatch.setattr(stage_module, "library_versions", upgraded)
    again = run(recipe())
    assert {"candidates", "train-rewriter", "rewrite"} <= again
    assert not {"data", "index", "label"} & again


def test_damaged_outputs_of_a_real_stage_run_again(recipe):
    run(recipe())
    index = recipe().out / "index" / "bm25" / "ids.json"
    index.write_text("[]")
    assert "index" in run(recipe())
    assert json.loads(index.read_text()) == [f"p{i}" for i in range(6)]


def test_an_index_that_comes_out_the_same_stops_the_wave(recipe):
    run(recipe())
    (recipe().out / "index" / "stage.json").unlink()
    for path in (recipe().out / "index" / "bm25").iterdir():
        path.unlink()
    (recipe().out / "index" / "bm25").rmdir()
    assert run(recipe()) == {"index"}
