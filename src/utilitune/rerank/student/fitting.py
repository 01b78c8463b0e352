"""Runs ``SentenceTransformerTrainer`` over utility groups."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from utilitune.rerank.groups import Group, Groups
from utilitune.rerank.student.base import prompts_of
from utilitune.rerank.student.checkpoints import step_of
from utilitune.rerank.student.config import RetrieverConfig


def fit(
    model: Any,
    loss: Any,
    groups: Groups,
    evaluator: Any,
    config: RetrieverConfig,
    checkpoints: Path,
    start: Path | None,
) -> tuple[Any, float]:
    """Train; the best epoch's weights are left in the model.

    Args:
        model: The ``SentenceTransformer``.
        loss: Its ``StudentLoss``.
        groups: Training groups.
        evaluator: Measures every epoch.
        config: Settings.
        checkpoints: Where checkpoints go.
        start: Checkpoint to go on from.

    Returns:
        The trainer's state, and the wall clock of the training steps in seconds.
    """
    from datasets import Dataset, DatasetDict
    from transformers import PrinterCallback

    from utilitune.progress import progress
    from utilitune.rerank.card_free import RetrieverTrainer
    from utilitune.rerank.cross_encoder import quiet_loading
    from utilitune.rerank.student.arguments import training_arguments
    from utilitune.rerank.training_callback import TrainingCallback

    by_size: dict[int, list[Group]] = {}
    for group in groups:
        by_size.setdefault(group.size, []).append(group)
    batch = max(1, round(config.batch_pairs * len(groups) / groups.pairs))
    steps = sum(-(-len(same) // batch) for same in by_size.values()) * config.epochs
    with quiet_loading(), progress("train retriever", steps, "steps") as bar:
        bar.advance(step_of(start))
        trainer = RetrieverTrainer(
            model=model,
            args=training_arguments(
                config,
                checkpoints,
                batch=batch,
                steps=steps,
                places=max(by_size),
                prompts=prompts_of(model),
                fresh=start is None,
                on_cpu=str(model.device) == "cpu",
            ),
            # One set a size: the losses want as many candidates in every row of a batch.
            train_dataset=DatasetDict(
                {f"size_{size}": Dataset.from_dict(columns(same)) for size, same in sorted(by_size.items())}
            ),
            loss=loss,
            evaluator=evaluator,
            callbacks=[TrainingCallback(bar, lambda epoch, loss: None)],
        )
        trainer.remove_callback(PrinterCallback)
        began = time.monotonic()
        trainer.train(resume_from_checkpoint=str(start) if start else None)
    return trainer.state, time.monotonic() - began - evaluator.seconds


def columns(groups: Sequence[Group]) -> dict[str, list[Any]]:
    """Lay out groups of one size as training columns.

    Args:
        groups: At least one, all with as many candidates.

    Returns:
        ``query``, ``passage_0`` (the best one), ``passage_1``, … (the others in their order) and ``label``, the lists
        of targets in that order.
    """
    orders = [_best_first(group) for group in groups]
    made: dict[str, list[Any]] = {"query": [group.query for group in groups]}
    for place in range(groups[0].size):
        made[f"passage_{place}"] = [group.passages[order[place]] for group, order in zip(groups, orders, strict=True)]
    made["label"] = [
        [float(group.targets[place]) for place in order] for group, order in zip(groups, orders, strict=True)
    ]
    return made


def _best_first(group: Group) -> list[int]:
    best = max(range(group.size), key=group.targets.__getitem__)
    return [best, *(place for place in range(group.size) if place != best)]
