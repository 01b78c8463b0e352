"""Settings that every way to train the rewriter shares."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class TrainingConfig(BaseModel, extra="forbid", frozen=True):
    """AdamW on a LoRA adapter.

    Attributes:
        lr: Peak learning rate of AdamW.
        epochs: Passes over the rows; ``max_steps`` >= 1 overrides it.
        max_steps: Optimiser steps, -1 for ``epochs``.
        batch_size: Rows (pairs, rewrites or questions) a forward pass.
        gradient_accumulation: Forward passes an optimiser step.
        lora_r: LoRA rank; an adapter to start from keeps its own.
        lora_alpha: LoRA scale; the update is multiplied by ``lora_alpha / lora_r``.
        lora_dropout: LoRA dropout in [0, 1).
        lora_targets: Names of the layers to adapt, or ``all-linear``.
        max_length: Longest prompt + completion in tokens; longer rows are dropped and counted, never cut.
        max_dropped: Share of rows that may be dropped before training refuses to go on.
        warmup: Share of steps over which the learning rate rises.
        scheduler: Shape of its decay.
        max_grad_norm: Gradient clipping.
        seed: Seeds the adapter's start and the order of rows.
        save_every: Optimiser steps between checkpoints; 0 keeps none.
        prompt: Prompt template that the rewrites were asked with; recorded for the rewriter.
        max_new_tokens: Length limit of a rewrite, recorded for the rewriter; the one that the candidates had.
        gradient_checkpointing: Trade a second forward pass for memory.
        report_to: Trackers by the names of transformers' ``report_to``; ``None`` is TensorBoard where it is installed.
    """

    lr: float = Field(default=1e-4, gt=0)
    epochs: float = Field(default=2.0, gt=0)
    max_steps: int = Field(default=-1, ge=-1)
    batch_size: int = Field(default=4, ge=1)
    gradient_accumulation: int = Field(default=1, ge=1)
    lora_r: int = Field(default=16, ge=1)
    lora_alpha: int = Field(default=32, ge=1)
    lora_dropout: float = Field(default=0.0, ge=0, lt=1)
    lora_targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    max_length: int = Field(default=512, ge=8)
    max_dropped: float = Field(default=0.5, ge=0, le=1)
    warmup: float = Field(default=0.1, ge=0, lt=1)
    scheduler: Literal["linear", "cosine", "constant_with_warmup"] = "linear"
    max_grad_norm: float = Field(default=1.0, gt=0)
    seed: int = 13
    save_every: int = Field(default=50, ge=0)
    prompt: str = "rewrite"
    max_new_tokens: int = Field(default=40, ge=1)
    gradient_checkpointing: bool = False
    report_to: tuple[str, ...] | None = None
