"""The trainer's arguments: an evaluation and a checkpoint an epoch, the best one loaded at the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from utilitune.rerank.student.config import RetrieverConfig


def training_arguments(
    config: RetrieverConfig,
    checkpoints: Path,
    *,
    batch: int,
    steps: int,
    places: int,
    prompts: Mapping[str, str],
    fresh: bool,
    on_cpu: bool,
) -> Any:
    """Return ``SentenceTransformerTrainingArguments``.

    Args:
        config: Settings.
        checkpoints: Where checkpoints go.
        batch: Queries a step.
        steps: Of the whole run; turns the warm-up share into steps.
        places: Candidates of the largest group.
        prompts: What is put before a ``query`` and a ``passage``.
        fresh: Whether the untrained encoder is measured first.
        on_cpu: Whether the model is there.

    Returns:
        The arguments.
    """
    from sentence_transformers import SentenceTransformerTrainingArguments

    from utilitune.rerank.student.evaluator import CHOICE
    from utilitune.rerank.trainer_arguments import shared_arguments

    passages = [f"passage_{place}" for place in range(places)]
    return SentenceTransformerTrainingArguments(
        **shared_arguments(config, batch=batch, steps=steps, on_cpu=on_cpu),
        output_dir=str(checkpoints),
        # Prompt and task of a column are what encode_query and encode_document give to a text.
        prompts={"query": prompts["query"], **dict.fromkeys(passages, prompts["passage"])},
        router_mapping={"query": "query", **dict.fromkeys(passages, "document")},
        eval_strategy="epoch",
        eval_on_start=fresh,
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model=CHOICE,
        greater_is_better=True,
    )
