"""Stage ``warm-up``: a fresh head learns a retriever's order before any label; few labels do not teach it to rank.

The retriever's scores cost no generator and no judgement. What a training on labels adds to them is the difference
from this stage's own row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from utilitune.errors import DataError
from utilitune.evaluation import ranking
from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.stages.reranker_training import fit_reranker
from utilitune.recipe.workspace import Workspace
from utilitune.records import Labels, Query, Run, UtilityLabel

ORDER = "retriever-score"
LOSS = "listwise-kl"
"""Whatever the loss of the labels is: it takes scores of any scale."""


def spread(run: Run, candidates: int) -> Labels:
    """Return scores of candidates over the whole depth of a run as labels: neighbours alone would differ by too little.

    Args:
        run: A retriever's.
        candidates: How many of a query to take, from the first rank on in equal steps.

    Returns:
        Labels of the utility ``retriever-score``.
    """
    rows = []
    for query_id, scored in run.items():
        ranked = ranking(scored)
        step = max(len(ranked) // candidates, 1)
        rows += [
            UtilityLabel(query_id, (passage_id,), score, "ok", f"{ORDER}@run")
            for passage_id, score in ranked[::step][:candidates]
        ]
    return Labels(rows)


def _questions(workspace: Workspace, wanted: int) -> Sequence[Query]:
    """Return training questions that no label is spent on; where all of them are labelled, the first ones."""
    labelled = workspace.recipe.reranker.train_queries
    if labelled is None:
        return workspace.queries("train_questions", wanted)
    found = workspace.queries("train_questions", labelled + wanted)[labelled:]
    if not found:
        raise DataError(
            f"reranker.warm_up: all {labelled} training questions are labelled, none is left; lower "
            "reranker.train_queries, or set it to null to warm up on labelled ones"
        )
    return found


def _warm_up(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.rerank import build_groups

    section, folder = workspace.recipe.reranker, workspace.folder("warm-up")
    asked = section.warm_up
    if asked is None:
        raise DataError("reranker.warm_up is null, and this stage was asked to run; set it")
    queries = _questions(workspace, asked.queries)
    run = workspace.retrievers[asked.retriever].search(queries, k=section.depth)
    labels = spread(run, section.labelled_depth)
    groups = build_groups(labels, workspace.dataset, utilities=[ORDER], rescale="z-score")
    made = fit_reranker(workspace, groups, folder, section.base, loss=LOSS, epochs=asked.epochs)
    return {"questions": len(queries), **made}


def starting_point(workspace: Workspace) -> str | Path:
    """Return what the trainings on labels start from."""
    section = workspace.recipe.reranker
    return workspace.folder("warm-up") if section.warm_up else section.base


WARM_UP = Stage(
    name="warm-up",
    about="let the cross-encoder learn a retriever's order, before any label",
    needs=("data", "index"),
    keys=(
        *("reranker.warm_up", "reranker.base", "reranker.training", "reranker.depth", "reranker.train_depth"),
        *("reranker.train_queries", "retrievers", "seed"),
    ),
    code=("records", "retrieval", "evaluation", "rerank"),
    action=_warm_up,
    left_out=unless("reranker", "train_questions", asked="warm_up"),
)
