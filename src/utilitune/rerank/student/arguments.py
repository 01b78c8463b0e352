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

    passages = [f"passage_{place}" for place in range(places)]
    return SentenceTransformerTrainingArguments(
        output_dir=str(checkpoints),
        num_train_epochs=config.epochs,
        per_device_train_batch_size=batch,
        learning_rate=config.learning_rate,
        warmup_steps=int(config.warmup_share * steps),
        weight_decay=config.weight_decay,
        lr_scheduler_type="linear",
        seed=config.seed,
        data_seed=config.seed,
        fp16=False,
        bf16=False,
        use_cpu=on_cpu,
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
        logging_strategy="steps",
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
