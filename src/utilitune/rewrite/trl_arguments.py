"""The one place that knows TRL's argument names, so that a renamed one is a clear message and not a TypeError."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.progress import say, warn
from utilitune.rewrite.dpo_config import DpoConfig
from utilitune.rewrite.grpo_config import GrpoConfig
from utilitune.rewrite.sft_config import SftConfig
from utilitune.rewrite.training_config import TrainingConfig

SUPPORTED = "trl>=1.10,<2"

# Without these the run would be another one; anything else may be missing in some release.
_NEEDED = frozenset(
    {
        "output_dir", "beta", "learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size",
        "gradient_accumulation_steps", "max_length", "precompute_ref_log_probs", "seed", "bf16", "loss_type",
        "completion_only_loss", "num_generations", "max_completion_length", "temperature", "scale_rewards",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where a run writes and computes.

    Attributes:
        checkpoints: Folder of the checkpoints.
        steps: Optimiser steps of the whole run; turns the warm-up share into steps.
        gpu: Whether to use one.
        bf16: Whether to compute in bfloat16; TRL's own default is yes, which is ruinous on many CPUs.
    """

    checkpoints: Path
    steps: int
    gpu: bool
    bf16: bool


def dpo_arguments(config: DpoConfig, place: Place) -> Any:
    """Return TRL's ``DPOConfig`` for ``config``."""
    from trl import DPOConfig

    wanted = {
        **_common(config, place),
        "beta": config.beta,
        "loss_type": ["sigmoid"],
        "max_length": config.max_length,
        "precompute_ref_log_probs": True,
    }
    return DPOConfig(**accepted(wanted, DPOConfig))


def sft_arguments(config: SftConfig, place: Place) -> Any:
    """Return TRL's ``SFTConfig`` for ``config``."""
    from trl import SFTConfig

    wanted = {
        **_common(config, place),
        "max_length": config.max_length,
        "completion_only_loss": True,
        "packing": False,
    }
    return SFTConfig(**accepted(wanted, SFTConfig))


def grpo_arguments(config: GrpoConfig, place: Place, chat_template_kwargs: Mapping[str, Any]) -> Any:
    """Return TRL's ``GRPOConfig`` for ``config``; a batch holds all samples of its questions."""
    from trl import GRPOConfig

    wanted = {
        **_common(config, place),
        "per_device_train_batch_size": config.batch_size * config.generations,
        # One generation a step: a resumed run then starts where a batch of samples does.
        "steps_per_generation": config.gradient_accumulation,
        "num_generations": config.generations,
        "max_completion_length": config.max_new_tokens,
        "temperature": config.temperature,
        "top_p": config.top_p,
        "beta": config.beta,
        "epsilon": config.epsilon,
        "scale_rewards": config.scale_rewards,
        "chat_template_kwargs": dict(chat_template_kwargs),
        "log_completions": False,
    }
    return GRPOConfig(**accepted(wanted, GRPOConfig))


def _common(config: TrainingConfig, place: Place) -> dict[str, Any]:
    return {
        "output_dir": str(place.checkpoints),
        "learning_rate": config.lr,
        "num_train_epochs": config.epochs,
        "max_steps": config.max_steps,
        "per_device_train_batch_size": config.batch_size,
        "gradient_accumulation_steps": config.gradient_accumulation,
        "max_grad_norm": config.max_grad_norm,
        "lr_scheduler_type": config.scheduler,
        "warmup_steps": round(config.warmup * place.steps),
        "gradient_checkpointing": config.gradient_checkpointing,
        "seed": config.seed,
        "data_seed": config.seed,
        "bf16": place.bf16,
        "fp16": False,
        "use_cpu": not place.gpu,
        "dataloader_pin_memory": place.gpu,
        "dataloader_num_workers": 0,
        "remove_unused_columns": False,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "disable_tqdm": True,
        "report_to": reporters(config.report_to),
        "push_to_hub": False,
        "save_strategy": "steps" if config.save_every else "no",
        "save_steps": config.save_every or 1,
        "save_total_limit": 2,
        "eval_strategy": "no",
    }


def reporters(wanted: Sequence[str] | None) -> list[str]:
    """Return the trackers to report to.

    Args:
        wanted: Names as transformers has them; ``None`` is TensorBoard where it is installed.

    Returns:
        The names.

    Raises:
        ConfigError: For a tracker that is not installed, listing those that are.
    """
    from transformers.integrations import get_available_reporting_integrations

    here = get_available_reporting_integrations()
    if wanted is None:
        if "tensorboard" in here:
            return ["tensorboard"]
        say("no TensorBoard curves: pip install tensorboard; training.json has every step")
        return []
    missing = [name for name in wanted if name not in here]
    if missing:
        raise ConfigError(
            f"report_to: {', '.join(missing)} is not installed or unknown; here: {', '.join(here) or 'none'}"
        )
    return list(wanted)


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
