"""Stage ``agreement``: how often the reward prefers what people would; nothing is trained on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from utilitune.evaluation import find_clusters
from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.workspace import Workspace
from utilitune.records import read_pairs, write_text
from utilitune.rewrite import gold_agreement


def _agreement(workspace: Workspace) -> Mapping[str, Any]:
    pairs = list(read_pairs(workspace.folder("pairs") / "pairs.jsonl"))
    dataset = workspace.dataset
    found = gold_agreement(pairs, workspace.retrievers, dataset.qrels, find_clusters(dataset.queries, "conversation"))
    lines = [f"{name}: {agreement}\n" for name, agreement in found.items()]
    write_text(workspace.folder("agreement") / "agreement.txt", "".join(lines))
    return {
        f"{name}_{kind}": count
        for name, each in found.items()
        for kind, count in (("right", each.right), ("differ", each.differ), ("judged", each.judged))
    }


AGREEMENT = Stage(
    name="agreement",
    about="compare the pairs with the judgements, where there are any",
    needs=("data", "index", "pairs"),
    keys=("retrievers",),
    code=("records", "retrieval", "evaluation", "rewrite"),
    action=_agreement,
    left_out=unless("rewriter", "train_turns"),
)
