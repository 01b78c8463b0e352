"""The reranker's stages up to its training: first-stage runs, labels, the reranker and its rivals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.stages.reranker_labels import label_candidates, training_candidates, training_groups
from utilitune.recipe.stages.reranker_systems import GOLD, model_folders, rival_row
from utilitune.recipe.stages.reranker_training import fit_reranker
from utilitune.recipe.stages.warm_up import starting_point
from utilitune.recipe.workspace import Workspace
from utilitune.records import write_run


def _retrieve(workspace: Workspace) -> Mapping[str, Any]:
    section = workspace.recipe.reranker
    counts: dict[str, Any] = {}
    for part, limit in (("train", section.train_queries), ("test", section.test_queries)):
        queries = workspace.queries(f"{part}_questions", limit)
        counts[f"{part}_questions"] = len(queries)
        for name, retriever in workspace.retrievers.items():
            if part == "test" or name in section.first_stages:
                run = retriever.search(queries, k=section.depth)
                write_run(workspace.folder("retrieve") / f"{name}.{part}.trec", run)
                counts[f"{name}_{part}_empty"] = sum(not ranking for ranking in run.values())
    return counts


def _label(workspace: Workspace) -> Mapping[str, Any]:
    utilities = workspace.recipe.reranker.utilities
    return label_candidates(workspace, "label", "train", training_candidates(workspace), utilities, workspace.generator)


def _label_rivals(workspace: Workspace) -> Mapping[str, Any]:
    asked = [rival for rival in workspace.recipe.reranker.rivals if rival != GOLD]
    if not asked:
        return {}
    # One pass over the candidates: what two utilities both need is read once.
    candidates = training_candidates(workspace)
    return label_candidates(workspace, "label-rivals", "train", candidates, asked, workspace.generator)


def _train(workspace: Workspace) -> Mapping[str, Any]:
    folder = workspace.folder("train-reranker")
    return fit_reranker(workspace, training_groups(workspace), folder, starting_point(workspace))


def _train_rivals(workspace: Workspace) -> Mapping[str, Any]:
    counts: dict[str, Any] = {}
    for rival in workspace.recipe.reranker.rivals:
        folder = model_folders(workspace)[rival_row(rival)]
        made = fit_reranker(workspace, training_groups(workspace, rival), folder, starting_point(workspace))
        counts |= {f"{rival}_{kind}": count for kind, count in made.items()}
    return counts


_CANDIDATES = ("reranker.first_stage", "reranker.train_queries", "reranker.depth", "reranker.train_depth")

RETRIEVE = Stage(
    name="retrieve",
    about="first-stage candidates of the stand-alone questions",
    needs=("data", "index"),
    keys=(
        "reranker.first_stage",
        "reranker.train_queries",
        "reranker.test_queries",
        "reranker.depth",
        "retrievers",
        "seed",
    ),
    code=("records", "retrieval"),
    action=_retrieve,
    left_out=unless("reranker", "train_questions"),
)
LABEL = Stage(
    name="label",
    about="label the training candidates with the generator's utility",
    needs=("data", "retrieve"),
    keys=("generator", *_CANDIDATES, "reranker.utilities", "seed"),
    code=("records", "generator", "scoring"),
    action=_label,
    left_out=unless("reranker", "train_questions"),
)
LABEL_RIVALS = Stage(
    name="label-rivals",
    about="label the same candidates with the rivals' utilities",
    needs=("data", "retrieve"),
    keys=("generator", *_CANDIDATES, "reranker.rivals", "seed"),
    code=("records", "generator", "scoring"),
    action=_label_rivals,
    left_out=unless("reranker", "train_questions", asked="rivals"),
)
TRAIN = Stage(
    name="train-reranker",
    about="fine-tune a cross-encoder on the labels",
    needs=("data", "label", "warm-up"),
    keys=("reranker.base", "reranker.warm_up", "reranker.utilities", "reranker.training", "seed"),
    code=("records", "generator", "scoring", "rerank"),
    action=_train,
    left_out=unless("reranker", "train_questions"),
)
TRAIN_RIVALS = Stage(
    name="train-rivals",
    about="fine-tune the same cross-encoder on other labels, judgements among them",
    needs=("data", "retrieve", "label-rivals", "warm-up"),
    keys=("reranker.base", "reranker.warm_up", *_CANDIDATES, "reranker.rivals", "reranker.training", "seed"),
    code=("records", "generator", "scoring", "rerank"),
    action=_train_rivals,
    left_out=unless("reranker", "train_questions", asked="rivals"),
)
