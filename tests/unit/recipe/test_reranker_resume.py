"""What a killed run of the reranker's stages finds whole is not made again."""

import json

from utilitune.recipe.stages import STAGES
from utilitune.recipe.stages.reranker_training import fit_reranker
from utilitune.recipe.workspace import Workspace

REPORT = {
    "groups": 3,
    "pairs": 9,
    "steps": 2,
    "kept_epoch": 1,
    "collapsed": False,
    "truncation": {"train": {"pairs": 9, "truncated_pairs": 4}},
    "drops": {"rows failed": 5},
}


def test_a_finished_training_is_read_and_not_repeated(tmp_path, recipe):
    (tmp_path / "training.json").write_text(json.dumps(REPORT))
    # No groups and no such base: a training would fail.
    assert fit_reranker(Workspace(recipe()), [], tmp_path, "nowhere") == {
        "groups": 3,
        "pairs": 9,
        "steps": 2,
        "kept_epoch": 1,
        "collapsed": 0,
        "truncated_truncated_pairs": 4,
        "dropped_rows failed": 5,
    }


def test_rerankers_whose_order_is_there_are_not_loaded(recipe):
    made = recipe("reranker.untrained=true", "reranker.rivals=[gold]")
    folder = made.out / "rerank"
    folder.mkdir(parents=True)
    for name in ("untrained-weights", "trained-on-gold-relevance", "tuned-reranker"):
        (folder / f"{name}.json").write_text(json.dumps({"counts": {"pairs": 2, "tied": 1}}))
    # There is no model and no run of the first stage: loading or reranking would fail.
    assert STAGES["rerank"].action(Workspace(made)) == {"pairs": 6, "tied": 3}
