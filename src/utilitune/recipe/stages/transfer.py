"""Stage ``transfer``: conversations of other data sets, which no training has seen, rewritten by every rewriter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from utilitune.progress import say
from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.data import build_index
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.stages.rewriter import load_system, systems, write_rewrites
from utilitune.recipe.workspace import Workspace


def _transfer(workspace: Workspace) -> Mapping[str, Any]:
    counts: dict[str, Any] = {}
    parts = {path.name: workspace.transfer(path) for path in workspace.recipe.evaluation.transfer}
    for name, (dataset, turns) in parts.items():
        say(f"transfer: {name}, {len(turns)} turns over {len(dataset.corpus)} passages")
        counts[f"{name}_turns"] = len(turns)
        for retriever, config in workspace.recipe.retrievers.items():
            build_index(config, dataset.corpus).save(workspace.folder("transfer") / name / "index" / retriever)
    for system, folder in systems(workspace).items():
        rewriter = load_system(workspace, system, folder)
        for name, (_, turns) in parts.items():
            write_rewrites(workspace.folder("transfer") / name / f"{system}.jsonl", rewriter.rewrite_batch(turns))
        counts |= {f"{system}_{kind}": count for kind, count in rewriter.counts.items()}
    return counts


TRANSFER = Stage(
    name="transfer",
    about="rewrite conversations of other data sets, untouched by training",
    needs=("train-sft", "train-rewriter", "train-grpo", "yardsticks"),
    keys=(
        *("rewriter.base", "rewriter.max_new_tokens", "rewriter.methods", "rewriter.yardsticks", "seed", "retrievers"),
        *("evaluation.transfer", "evaluation.transfer_turns", "on_bad_line"),
    ),
    code=("records", "generator", "retrieval", "rewrite"),
    action=_transfer,
    left_out=unless("rewriter", "train_turns", measured="transfer"),
)
