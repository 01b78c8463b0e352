"""Training labels of the rerankers: the candidates that get them, and the groups made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

from utilitune.evaluation import ranking
from utilitune.recipe.stages.reranker_systems import GOLD, first_stage_run
from utilitune.recipe.workspace import Workspace
from utilitune.records import Labels, Run, UtilityLabel, read_labels

if TYPE_CHECKING:
    from utilitune.generator import Generator
    from utilitune.rerank import Groups


def training_candidates(workspace: Workspace) -> Run:
    """Return the candidates to label: the first ones of every first stage, in turns, each once."""
    section = workspace.recipe.reranker
    runs = [first_stage_run(workspace, name, "train").top(section.labelled_depth) for name in section.first_stages]
    if len(runs) == 1:
        return runs[0]
    merged = Run()
    for query_id in runs[0]:
        lists = [[passage_id for passage_id, _ in ranking(run.get(query_id, ()))] for run in runs]
        found = dict.fromkeys(one for turn in zip_longest(*lists) for one in turn if one is not None)
        merged[query_id] = [(passage_id, -float(rank)) for rank, passage_id in enumerate(found)]
    return merged


def label_candidates(
    workspace: Workspace,
    stage: str,
    part: Literal["train", "test"],
    candidates: Run,
    utilities: Sequence[str],
    generator: Generator,
) -> Mapping[str, Any]:
    """Label all candidates into ``labels.jsonl`` of a stage's folder.

    Args:
        workspace: The run.
        stage: The stage.
        part: Which questions they are of.
        candidates: What to label.
        utilities: By what.
        generator: Whose utility it is.

    Returns:
        Counts for the stage's record.
    """
    from utilitune.scoring import label_file

    section = workspace.recipe.reranker
    limit = section.train_queries if part == "train" else section.test_queries
    labels = label_file(
        workspace.folder(stage) / "labels.jsonl",
        workspace.dataset.subset(workspace.queries(f"{part}_questions", limit)),
        candidates,
        utilities,
        generator,
        k=max((len(scored) for scored in candidates.values()), default=0) or 1,
        store=workspace.store,
    )
    return dict(labels.manifest["counts"])


def gold_labels(workspace: Workspace) -> Labels:
    """Return the judgements of the training candidates as labels; questions without any judgement have none."""
    qrels = workspace.dataset.qrels
    rows = [
        UtilityLabel(query_id, (passage_id,), float(qrels[query_id].get(passage_id, 0.0)), "ok", f"{GOLD}@judged")
        for query_id, scored in training_candidates(workspace).items()
        if qrels.get(query_id)
        for passage_id, _ in scored
    ]
    return Labels(rows)


def training_groups(workspace: Workspace, rival: str | None = None, folder: str = "label") -> Groups:
    """Return the groups of one training.

    Args:
        workspace: The run.
        rival: One of ``reranker.rivals``; ``None`` for the recipe's own utilities.
        folder: Stage with the labels of the recipe's own utilities.

    Returns:
        The groups.
    """
    from utilitune.rerank import Relevance, build_groups
    from utilitune.scoring import make_utility

    section = workspace.recipe.reranker
    if rival == GOLD:
        labels, names = gold_labels(workspace), [GOLD]
    else:
        home = "label-rivals" if rival else folder
        labels = read_labels(workspace.folder(home) / "labels.jsonl")
        names = [make_utility(spec).name for spec in ([rival] if rival else section.trained_utilities)]
    training = section.training
    source = training.relevance
    if source is not None and source in section.utilities:
        source = make_utility(source).name
    return build_groups(
        labels,
        workspace.dataset,
        utilities=names,
        rescale=training.rule,
        relevance=None if source is None else Relevance(source, gamma=training.gamma),
    )
