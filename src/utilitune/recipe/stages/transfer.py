"""Stage ``transfer``: conversations of other data sets, which no training has seen, rewritten by every rewriter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from utilitune.errors import DataError
from utilitune.progress import say
from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.data import build_index
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.stages.rewriter import CODE
from utilitune.recipe.stages.rewriter_use import choose_best, rewrite_sets
from utilitune.recipe.workspace import Workspace
from utilitune.records import Query


def _transfer(workspace: Workspace) -> Mapping[str, Any]:
    from utilitune.retrieval import load_index

    counts: dict[str, Any] = {}
    sets: dict[Path, list[Query]] = {}
    seen = {_asked(turn) for turn in workspace.queries("train_turns", workspace.recipe.rewriter.train_turns)}
    for path in workspace.recipe.evaluation.transfer:
        dataset, turns = workspace.transfer(path)
        learnt = [turn.id for turn in turns if _asked(turn) in seen]
        if learnt:
            raise DataError(
                f"{path}: {len(learnt)} of {len(turns)} turns (such as {learnt[0]!r}) are training turns word for "
                "word; expected data that no training has seen: take them out of evaluation.transfer"
            )
        say(f"transfer: {path.name}, {len(turns)} turns over {len(dataset.corpus)} passages")
        counts[f"{path.name}_turns"] = len(turns)
        folder = workspace.folder("transfer") / path.name
        sets[folder] = turns
        for retriever, config in workspace.recipe.retrievers.items():
            build_index(config, dataset.corpus).save(folder / "index" / retriever)
    counts |= rewrite_sets(workspace, sets)
    if workspace.recipe.rewriter.best_of:
        for path in workspace.recipe.evaluation.transfer:
            dataset, turns = workspace.transfer(path)
            folder = workspace.folder("transfer") / path.name
            retrievers = {name: load_index(folder / "index" / name) for name in workspace.recipe.retrievers}
            made = choose_best(workspace, turns, retrievers, dataset, folder / "best-of")
            counts |= {f"{path.name}_{kind}": count for kind, count in made.items()}
    return counts


def _asked(turn: Query) -> tuple[str, ...]:
    """Return what was said in a conversation up to a turn."""
    return (*(earlier.content for earlier in turn.history), turn.text)


TRANSFER = Stage(
    name="transfer",
    about="rewrite conversations of other data sets, untouched by training",
    needs=("data", "train-sft", "train-rewriter", "train-grpo", "yardsticks"),
    keys=(
        *("rewriter.base", "rewriter.max_new_tokens", "rewriter.methods", "rewriter.yardsticks", "seed"),
        *("generator", "retrievers", "rewriter.train_turns"),
        *("rewriter.candidates", "rewriter.reward", "rewriter.best_of"),
        *("evaluation.transfer", "evaluation.transfer_turns", "on_bad_line"),
    ),
    code=CODE,
    action=_transfer,
    left_out=unless("rewriter", "train_turns", measured="transfer"),
)
