"""Stage ``rerank``: every reranker orders the test questions' candidates, alone and with the first stage's score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.interpolation import choose_weight, mixed
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.stages.reranker_labels import training_groups
from utilitune.recipe.stages.reranker_systems import (
    MIXED,
    UNTRAINED,
    WARM,
    first_stage_run,
    model_folders,
    rival_row,
    run_file,
    slug,
)
from utilitune.recipe.stages.reranker_training import REPORT
from utilitune.recipe.workspace import Workspace
from utilitune.records import Run, read_json, write_json, write_run

if TYPE_CHECKING:
    from utilitune.rerank import UtilityReranker


def _rerankers(workspace: Workspace) -> dict[str, Callable[[], UtilityReranker]]:
    """Return how to load the reranker of every row."""
    from utilitune.rerank import UtilityReranker

    section = workspace.recipe.reranker
    folders = {WARM: workspace.folder("warm-up")} if section.warm_up else {}
    folders |= model_folders(workspace)
    seed, limit, head = workspace.recipe.seed, section.training.max_length, section.training.head
    fresh = partial(UtilityReranker.untrained, section.base, seed=seed, max_length=limit, head=head)
    return {
        **({UNTRAINED: fresh} if section.untrained else {}),
        **{row: partial(UtilityReranker.load, folder) for row, folder in folders.items()},
    }


def _rerank(workspace: Workspace) -> Mapping[str, Any]:
    counts: Counter[str] = Counter()
    for row, load in _rerankers(workspace).items():
        # Written last of what a reranker leaves here: a killed stage goes on with the next one.
        record = workspace.folder("rerank") / f"{slug(row)}.json"
        if not record.is_file():
            write_json(record, _order(workspace, row, load()))
        counts.update(read_json(record)["counts"])
    return dict(counts)


def _order(workspace: Workspace, row: str, reranker: UtilityReranker) -> dict[str, Any]:
    """Write the runs of a reranker; return what it counted, and its weights beside the first stage."""
    section = workspace.recipe.reranker
    runs = {}
    for name in workspace.recipe.retrievers:
        runs[name] = reranker.rerank(first_stage_run(workspace, name), workspace.dataset, depth=section.depth)
        write_run(run_file(workspace, name, row), runs[name])
    found: dict[str, Any] = {"counts": dict(reranker.counts)}
    if section.interpolate and row in model_folders(workspace):
        found["weights"] = _mix(workspace, row, reranker, runs)
    return found


def _mix(workspace: Workspace, row: str, reranker: UtilityReranker, runs: Mapping[str, Run]) -> dict[str, Any]:
    """Choose each first stage's weight on the training questions held out of the training, write the mixed runs."""
    section = workspace.recipe.reranker
    rivals = {rival_row(rival): rival for rival in section.rivals}
    held_out = {*read_json(model_folders(workspace)[row] / REPORT)["queries"]["dev"]}
    worth = {
        group.query_id: dict(zip(group.passage_ids, group.utilities, strict=True))
        for group in training_groups(workspace, rivals.get(row))
        if group.query_id in held_out
    }
    chosen: dict[str, Any] = {}
    for name in section.first_stages:
        first = first_stage_run(workspace, name, "train")
        first = Run({query_id: scored for query_id, scored in first.items() if query_id in worth})
        weight, means = choose_weight(first, reranker.rerank(first, workspace.dataset, depth=section.depth), worth)
        curve = {f"{step:g}": mean for step, mean in means.items()}
        chosen[name] = {"weight": weight, "chosen_on": name, "questions": len(worth), "ndcg_by_weight": curve}
    for name, run in runs.items():
        # A retriever whose training candidates were not labelled takes the weight of one whose were.
        weight = chosen.setdefault(name, chosen[section.first_stages[0]])["weight"]
        write_run(run_file(workspace, name, f"{row}{MIXED}"), mixed(first_stage_run(workspace, name), run, weight))
    return chosen


RERANK = Stage(
    name="rerank",
    about="rerank the test questions' candidates",
    needs=("data", "retrieve", "label", "label-rivals", "warm-up", "train-reranker", "train-rivals"),
    keys=(
        *("retrievers", "seed", "reranker.base", "reranker.depth", "reranker.first_stage", "reranker.utilities"),
        *("reranker.training", "reranker.warm_up", "reranker.rivals", "reranker.untrained", "reranker.interpolate"),
    ),
    code=("records", "evaluation", "scoring", "rerank"),
    action=_rerank,
    left_out=unless("reranker", "train_questions", "test_questions"),
)
