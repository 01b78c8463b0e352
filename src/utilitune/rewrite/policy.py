"""The model that is trained: a base with a fresh LoRA adapter, or with one that an earlier training left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.generator.hub_commit import hub_commit
from utilitune.progress import say
from utilitune.rewrite.adapter_folder import RewriterCard
from utilitune.rewrite.base_spec import BaseSpec
from utilitune.rewrite.training_config import TrainingConfig


@dataclass(frozen=True)
class Policy:
    """What a TRL trainer is given.

    Attributes:
        model: Causal language model; a PEFT model when training goes on from an adapter.
        peft_config: Adapter to make, ``None`` when the model has one.
        revision: Commit of the base's weights, where the Hub said it.
    """

    model: Any
    peft_config: Any
    revision: str


def load_policy(
    base: BaseSpec, start: Path | None, tokenizer: Any, config: TrainingConfig, *, gpu: bool, bf16: bool
) -> Policy:
    """Load the weights.

    Args:
        base: The base.
        start: Adapter folder to go on from, or ``None``.
        tokenizer: Its tokenizer; gets a padding token when it has none.
        config: Settings.
        gpu: Whether to train on one.
        bf16: Whether in bfloat16.

    Returns:
        The policy.

    Raises:
        ConfigError: For a start that is no adapter.
    """
    import torch
    from peft import LoraConfig, PeftModel
    from transformers import AutoModelForCausalLM, set_seed

    set_seed(config.seed)  # before anything is initialised
    source, options = base.locate()
    dtype = torch.bfloat16 if bf16 else torch.float32
    model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, use_safetensors=True, **options)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id
    local = options["local_files_only"]
    revision = base.revision if local else hub_commit(source, options["revision"])
    if start is None:
        targets = config.lora_targets
        lora = LoraConfig(
            r=config.lora_r,
            lora_alpha=config.lora_alpha,
            lora_dropout=config.lora_dropout,
            target_modules=targets if isinstance(targets, str) else list(targets),
            task_type="CAUSAL_LM",
        )
        return Policy(model, lora, revision)
    policy = PeftModel.from_pretrained(model, str(start), is_trainable=True)
    own = policy.active_peft_config
    if getattr(own, "r", config.lora_r) != config.lora_r:
        say(f"start: the adapter in {start.name} has LoRA rank {own.r}, which stays (lora_r = {config.lora_r})")
    return Policy(policy, None, revision)


def check_start(start: Path | None, base: BaseSpec) -> None:
    """Refuse an adapter of another base, before any model is loaded.

    Args:
        start: Adapter folder, or ``None``.
        base: The base that it is to be put on.

    Raises:
        ConfigError: When there is no adapter, or it belongs to another base.
    """
    if start is None:
        return
    if not (start / "adapter_model.safetensors").is_file():
        raise ConfigError(f"start: {start} holds no adapter_model.safetensors; give the folder of a trained rewriter")
    own = RewriterCard.read(start).locate_base(start)
    theirs = BaseSpec.of(own).model
    same = theirs == base.model or (Path(theirs).is_dir() and Path(theirs).resolve() == Path(base.model).resolve())
    if not same:
        raise ConfigError(f"start: {start} is an adapter of {theirs}, and the base is {base.model}; give base={theirs}")
