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

ROUNDS = {"pairs": "", "resample": "second round, "}
"""Stages that write pairs, and what is said before their lines."""


def _agreement(workspace: Workspace) -> Mapping[str, Any]:
    dataset = workspace.dataset
    clusters = find_clusters(dataset.queries, "conversation")
    lines: list[str] = []
    counts: dict[str, int] = {}
    for stage, said in ROUNDS.items():
        if not workspace.done(stage):
            continue
        pairs = list(read_pairs(workspace.folder(stage) / "pairs.jsonl"))
        found = gold_agreement(pairs, workspace.retrievers, dataset.qrels, clusters)
        lines += [f"{said}{name}: {agreement}\n" for name, agreement in found.items()]
        counts |= {
            f"{stage}_{name}_{kind}": count
            for name, each in found.items()
            for kind, count in (("right", each.right), ("differ", each.differ), ("judged", each.judged))
        }
    write_text(workspace.folder("agreement") / "agreement.txt", "".join(lines))
    return counts


AGREEMENT = Stage(
    name="agreement",
    about="compare the pairs with the judgements, where there are any",
    needs=("data", "index", "pairs", "resample"),
    keys=("retrievers",),
    code=("records", "retrieval", "evaluation", "rewrite"),
    action=_agreement,
    left_out=unless("rewriter", "train_turns"),
)
