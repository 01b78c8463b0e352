"""The rewriters at work: every one of them on the test turns, and the best of several by utility."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utilitune.recipe.stage import Stage
from utilitune.recipe.stages.left_out import unless
from utilitune.recipe.stages.rewriter import BASE, CODE, searchers
from utilitune.recipe.stages.rewriter_training import tuned_folder
from utilitune.recipe.workspace import Workspace
from utilitune.records import Dataset, Query, read_rows
from utilitune.rewrite import Rewriter
from utilitune.rewrite.rewriter import write_rewrites

if TYPE_CHECKING:
    from utilitune.rewrite.reward import TextSearcher

BEST_OF_SYSTEMS = ("untuned", "tuned")
"""The rewriters whose best of several by utility is measured."""


def systems(workspace: Workspace) -> dict[str, Path | None]:
    """Return ``{name: adapter folder}`` of every rewriter that the recipe makes; ``None`` is the untuned base."""
    section = workspace.recipe.rewriter
    found: dict[str, Path | None] = {"untuned": None}
    found |= {method: tuned_folder(workspace, method) for method in section.methods[:-1]}
    found["tuned"] = tuned_folder(workspace)
    last = [method for method in section.methods if method != "grpo"]
    found |= {name: workspace.folder("yardsticks") / name / last[-1] for name in section.yardsticks}
    return found


def rewrite_sets(workspace: Workspace, sets: Mapping[Path, Sequence[Query]]) -> dict[str, int]:
    """Let every one of ``systems`` rewrite every set of turns; a file that is there is whole, and stays.

    Args:
        workspace: The run.
        sets: Turns by the folder that their rewrites go to, a file a system.

    Returns:
        ``fallback`` and ``cut`` of each system.
    """
    counts: Counter[str] = Counter()
    for name, adapter in systems(workspace).items():
        rewriter = load_system(workspace, name, adapter)
        for folder, turns in sets.items():
            path = folder / f"{name}.jsonl"
            if not path.is_file():
                write_rewrites(path, rewriter.rewrite_batch(turns))
            for _, row in read_rows(path):
                counts.update({f"{name}_fallback": int(row["fallback"]), f"{name}_cut": int(row["cut"])})
    return dict(counts)


def _rewrite(workspace: Workspace) -> Mapping[str, Any]:
    turns = workspace.queries("test_turns", workspace.recipe.rewriter.test_turns)
    return {"turns": len(turns), **rewrite_sets(workspace, {workspace.folder("rewrite"): turns})}


def load_system(workspace: Workspace, name: str, folder: Path | None) -> Rewriter:
    """Load one of ``systems``, and note which model it is."""
    if folder is None:
        return Rewriter(workspace.rewriter_base(), max_new_tokens=workspace.recipe.rewriter.max_new_tokens)
    rewriter = Rewriter.load(folder)
    workspace.note(f"{name} rewriter", rewriter.generator)
    return rewriter


@dataclass(frozen=True)
class Turns:
    """Turns to rewrite, and what their rewrites are searched in.

    Attributes:
        turns: The turns.
        retrievers: Those that the reward asks, by name.
        dataset: Where the passages are from.
    """

    turns: Sequence[Query]
    retrievers: Mapping[str, TextSearcher]
    dataset: Dataset


def choose_best(workspace: Workspace, sets: Mapping[Path, Turns]) -> dict[str, Any]:
    """Let ``BEST_OF_SYSTEMS`` write several rewrites of each turn and take the best by the recipe's reward.

    Args:
        workspace: The run; what was sampled and labelled before is in its store.
        sets: Turns by the folder that their rewrites go to, a file a system.

    Returns:
        What choosing counts, by system and, of several sets, folder.
    """
    from utilitune.rewrite import BestOf

    section = workspace.recipe.rewriter
    counts: dict[str, Any] = {}
    for name in BEST_OF_SYSTEMS:
        rewriter = load_system(workspace, name, systems(workspace)[name])
        for folder, asked in sets.items():
            chooser = BestOf(
                rewriter,
                asked.retrievers,
                asked.dataset.corpus,
                section.reward.utilities,
                workspace.generator,
                n=section.best_of,
                temperature=section.candidates.temperature,
                top_p=section.candidates.top_p,
                include=section.candidates.include,
                **section.reward.reading(),
                scale=section.reward.scale,
                seed=workspace.recipe.seed,
                store=workspace.store,
            )
            write_rewrites(folder / f"{name}.jsonl", chooser.rewrite_batch(asked.turns))
            group = f"{folder.name}_{name}" if len(sets) > 1 else name
            counts |= {f"{group}_{kind}": count for kind, count in chooser.counts.items()}
    return counts


def _best_of(workspace: Workspace) -> Mapping[str, Any]:
    turns = workspace.queries("test_turns", workspace.recipe.rewriter.test_turns)
    own = Turns(turns, searchers(workspace), workspace.dataset)
    return {"turns": len(turns), **choose_best(workspace, {workspace.folder("best-of"): own})}


CHOICE = (
    *(*BASE, "generator", "retrievers", "rewriter.candidates", "rewriter.methods"),
    *("rewriter.reward", "rewriter.best_of"),
)
"""Keys that ``choose_best`` reads."""

REWRITE = Stage(
    name="rewrite",
    about="rewrite the test turns, untuned and tuned",
    needs=("data", "train-sft", "train-rewriter", "train-grpo", "yardsticks"),
    keys=(*BASE, "rewriter.test_turns", "rewriter.methods", "rewriter.yardsticks"),
    code=("records", "generator", "rewrite"),
    action=_rewrite,
    left_out=unless("rewriter", "train_turns", "test_turns"),
)
BEST_OF = Stage(
    name="best-of",
    about="sample rewrites of the test turns, take the most useful one of each",
    needs=("data", "index", "train-sft", "train-rewriter", "train-grpo"),
    keys=(*CHOICE, "rewriter.test_turns"),
    code=CODE,
    action=_best_of,
    left_out=unless("rewriter", "train_turns", "test_turns", asked="best_of"),
)
