"""The one place that knows TRL's argument names, so that a renamed one is a clear message and not a TypeError."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.progress import warn
from utilitune.rewrite.dpo_config import DpoConfig

SUPPORTED = "trl>=1.10,<2"

# Without these the run would be another one; anything else may be missing in some release.
_NEEDED = frozenset(
    {
        "output_dir", "beta", "learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size",
        "gradient_accumulation_steps", "max_length", "precompute_ref_log_probs", "seed", "bf16", "loss_type",
    }
)  # fmt: skip


def dpo_arguments(config: DpoConfig, checkpoints: Path, *, steps: int, gpu: bool, bf16: bool) -> Any:
    """Return TRL's ``DPOConfig`` for ``config``.

    Args:
        config: Our settings.
        checkpoints: Folder of the checkpoints.
        steps: Optimiser steps of the whole run; turns the warm-up share into steps.
        gpu: Whether to use one.
        bf16: Whether to compute in bfloat16; TRL's own default is yes, which is ruinous on many CPUs.

    Returns:
        A ``trl.DPOConfig``.
    """
    from trl import DPOConfig

    wanted: dict[str, Any] = {
        "output_dir": str(checkpoints),
        "beta": config.beta,
        "loss_type": ["sigmoid"],
        "learning_rate": config.lr,
        "num_train_epochs": config.epochs,
        "max_steps": config.max_steps,
        "per_device_train_batch_size": config.batch_size,
        "gradient_accumulation_steps": config.gradient_accumulation,
        "max_length": config.max_length,
        "max_grad_norm": config.max_grad_norm,
        "lr_scheduler_type": config.scheduler,
        "warmup_steps": round(config.warmup * steps),
        "precompute_ref_log_probs": True,
        "gradient_checkpointing": config.gradient_checkpointing,
        "seed": config.seed,
        "data_seed": config.seed,
        "bf16": bf16,
        "fp16": False,
        "use_cpu": not gpu,
        "dataloader_pin_memory": gpu,
        "dataloader_num_workers": 0,
        "remove_unused_columns": False,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "disable_tqdm": True,
        "report_to": [],
        "push_to_hub": False,
        "save_strategy": "steps" if config.save_every else "no",
        "save_steps": config.save_every or 1,
        "save_total_limit": 2,
        "eval_strategy": "no",
    }
    return DPOConfig(**accepted(wanted, DPOConfig))


def accepted(wanted: Mapping[str, Any], target: Any) -> dict[str, Any]:
    """Return the arguments that ``target`` knows.

    Args:
        wanted: Arguments by name.
        target: A class or function.

    Returns:
        Those in its signature; the rest is named in a warning.

    Raises:
        ConfigError: When a needed one is unknown, naming the versions that work.
    """
    known = inspect.signature(target).parameters
    unknown = [name for name in wanted if name not in known]
    lost = [name for name in unknown if name in _NEEDED]
    if lost:
        raise ConfigError(
            f"trl {version('trl')} does not know {', '.join(lost)} in {target.__name__}; "
            f"utilitune works with {SUPPORTED}: pip install '{SUPPORTED}'"
        )
    if unknown:
        warn(f"trl {version('trl')} ignores {', '.join(unknown)} (utilitune is tested with {SUPPORTED})")
    return {name: value for name, value in wanted.items() if name in known}
