"""Stage ``transfer``: conversations of other data sets, which no training has seen, rewritten by every rewriter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utilitune.errors import DataError
from utilitune.progress import say
from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.data import build_index
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.stages.rewriter import CODE, asked_retrievers
from utilitune.recipe.stages.rewriter_use import CHOICE, Turns, choose_best, rewrite_sets
from utilitune.recipe.workspace import Workspace
from utilitune.records import Query

if TYPE_CHECKING:
    from utilitune.retrieval import Retriever


def _transfer(workspace: Workspace) -> Mapping[str, Any]:
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
    return {**counts, **rewrite_sets(workspace, sets)}


def transfer_indexes(workspace: Workspace, folder: Path, names: Iterable[str]) -> dict[str, Retriever]:
    """Return retrievers over the passages of a data set of ``evaluation.transfer``.

    Args:
        workspace: The run, with the stage ``transfer`` done.
        folder: Folder of the data set.
        names: Of the recipe's retrievers.

    Returns:
        ``{name: retriever}``.
    """
    from utilitune.retrieval import load_index

    return {name: load_index(workspace.folder("transfer") / folder.name / "index" / name) for name in names}


def _best_of(workspace: Workspace) -> Mapping[str, Any]:
    sets: dict[Path, Turns] = {}
    for path in workspace.recipe.evaluation.transfer:
        dataset, turns = workspace.transfer(path)
        asked = transfer_indexes(workspace, path, asked_retrievers(workspace))
        sets[workspace.folder("best-of-transfer") / path.name] = Turns(turns, asked, dataset)
    return choose_best(workspace, sets)


def _asked(turn: Query) -> tuple[str, ...]:
    """Return what was said in a conversation up to a turn."""
    return (*(earlier.content for earlier in turn.history), turn.text)


TRANSFER = Stage(
    name="transfer",
    about="rewrite conversations of other data sets, untouched by training",
    needs=("data", "train-sft", "train-rewriter", "train-grpo", "yardsticks"),
    keys=(
        *("rewriter.base", "rewriter.max_new_tokens", "rewriter.methods", "rewriter.yardsticks", "seed"),
        *("retrievers", "rewriter.train_turns"),
        *("evaluation.transfer", "evaluation.transfer_turns", "on_bad_line"),
    ),
    code=("records", "generator", "retrieval", "rewrite"),
    action=_transfer,
    left_out=unless("rewriter", "train_turns", measured="transfer"),
)
BEST_OF_TRANSFER = Stage(
    name="best-of-transfer",
    about="the best of several rewrites for conversations of other data sets",
    needs=("data", "train-sft", "train-rewriter", "train-grpo", "transfer"),
    keys=(
        *CHOICE,
        *("evaluation.transfer", "evaluation.transfer_turns", "on_bad_line"),
    ),
    code=CODE,
    action=_best_of,
    left_out=unless("rewriter", "train_turns", measured="transfer", asked="best_of"),
)
