"""The trainer arguments that every training of this package has in common, as sentence-transformers names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from utilitune.rerank.trainer_config import TrainerConfig


def shared_arguments(config: TrainerConfig, *, batch: int, steps: int, on_cpu: bool) -> dict[str, Any]:
    """Return what a reranker's and a retriever's training have in common.

    Args:
        config: Settings.
        batch: Rows a step.
        steps: Of the whole run; turns the warm-up share into steps.
        on_cpu: Whether the model is there.

    Returns:
        Arguments by name: fp32, linear schedule, every step logged, no reporters.
    """
    return {
        "num_train_epochs": config.epochs,
        "per_device_train_batch_size": batch,
        "learning_rate": config.learning_rate,
        "warmup_steps": int(config.warmup_share * steps),
        "weight_decay": config.weight_decay,
        "lr_scheduler_type": "linear",
        "seed": config.seed,
        "data_seed": config.seed,
        "fp16": False,
        "bf16": False,
        "use_cpu": on_cpu,
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "report_to": [],
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }
