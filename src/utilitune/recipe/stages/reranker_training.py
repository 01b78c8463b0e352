"""One training of a reranker as the recipe sets it; a finished one is not made again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utilitune.recipe.workspace import Workspace
from utilitune.records import read_json

if TYPE_CHECKING:
    from utilitune.rerank import Groups

REPORT = "training.json"


def fit_reranker(
    workspace: Workspace,
    groups: Groups,
    folder: Path,
    base: str | Path,
    *,
    loss: str | None = None,
    epochs: int | None = None,
) -> Mapping[str, Any]:
    """Train unless the folder holds a finished training, which writes its report last.

    Args:
        workspace: The run.
        groups: What to train on.
        folder: Where the model goes.
        base: What to start from.
        loss: Instead of the recipe's.
        epochs: Instead of the recipe's.

    Returns:
        Counts for the stage's record.
    """
    from utilitune.rerank import RerankerConfig, train_reranker

    if not (folder / REPORT).is_file():
        workspace.release()
        section = workspace.recipe.reranker
        config = RerankerConfig(
            head=section.training.head,
            loss=loss or section.training.loss,
            learning_rate=section.training.lr,
            epochs=epochs or section.training.epochs,
            batch_pairs=section.training.batch_pairs,
            max_length=section.training.max_length,
            choose_by=section.training.choose_by,
            seed=workspace.recipe.seed,
        )
        train_reranker(groups, str(base), folder, config)
    report = read_json(folder / REPORT)
    return {
        **{kind: report[kind] for kind in ("groups", "pairs", "steps", "kept_epoch")},
        "collapsed": int(report["collapsed"]),
        **{f"truncated_{kind}": count for kind, count in report["truncation"]["train"].items() if kind != "pairs"},
        **{f"dropped_{kind}": count for kind, count in report["drops"].items()},
    }
