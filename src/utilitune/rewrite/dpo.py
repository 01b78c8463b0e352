"""Train the rewriter on preference pairs: TRL's DPO with a LoRA adapter."""

from __future__ import annotations

import hashlib
import json
import math
import os
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from utilitune.errors import ThresholdError
from utilitune.progress import progress, say
from utilitune.records import manifest, write_json
from utilitune.records.pair import PreferencePair
from utilitune.rewrite.adapter_folder import RewriterCard, portable_base
from utilitune.rewrite.checkpoints import prepare
from utilitune.rewrite.dpo_config import DpoConfig
from utilitune.rewrite.pairs import NoPairsError, PairScreen, PairSet
from utilitune.rewrite.tokens import ChatTokenizer, fit_roles, load_tokenizer, template_options
from utilitune.rewrite.training_report import TrainingReport, log_rows, reading, tail_mean


def train_dpo(
    pairs: Sequence[PreferencePair],
    base: str,
    out: Path | str,
    config: DpoConfig | None = None,
    *,
    resume: bool = False,
) -> TrainingReport:
    """Train a LoRA adapter on ``base`` so that it writes the chosen side of the pairs.

    The reference is the base itself (the adapter starts as no change); its log-probabilities are computed
    once. Pairs that cannot teach anything or do not fit are left out and counted before the model is loaded.

    Args:
        pairs: Preference pairs.
        base: ``packaged:NAME``, Hub id or folder of a chat-tuned causal language model.
        out: Folder for the adapter, ``rewriter.json``, ``training.json`` and ``checkpoints/``.
        config: Settings; defaults when missing.
        resume: Go on from the newest complete checkpoint in ``out``.

    Returns:
        What happened, as written to ``training.json``.

    Raises:
        NoPairsError: When no pair is left, before any model is loaded.
        ThresholdError: When more than ``config.max_dropped`` of the pairs were left out.
        DataError: When the loss is not finite, naming the questions of the batch.
        ConfigError: For a base without chat template, or a resume with other inputs.
    """
    config = config or DpoConfig()
    out = Path(out)
    if not pairs:
        raise NoPairsError(PairSet(pairs=(), drops={}))
    tokenizer = load_tokenizer(base)
    kept, drops, system = _screen(pairs, tokenizer, config)
    reference_name, kind = portable_base(base, out)
    rows = [
        {
            "prompt": fit_roles(pair.prompt, system),
            "chosen": [dict(message) for message in pair.chosen],
            "rejected": [dict(message) for message in pair.rejected],
            "chat_template_kwargs": template_options(),
            "pair_index": index,
        }
        for index, pair in enumerate(kept)
    ]
    inputs = {
        "config": config.model_dump(),
        "base": reference_name,
        "pairs": hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest(),
        "chat_template": hashlib.sha256(str(tokenizer.chat_template).encode()).hexdigest(),
    }
    start = prepare(out / "checkpoints", inputs, resume=resume)

    started = time.monotonic()
    with _quiet_libraries():
        trainer = _trainer(rows, [pair.query_id for pair in kept], base, tokenizer, out, config)
        reference_seconds = time.monotonic() - started
        once = trainer.sharing is not None and trainer.sharing.on
        say(
            f"reference: the base {base} with the adapter off, log-probabilities of {len(kept)} pairs computed once "
            f"({reference_seconds:.1f} s); each prompt is run {'once' if once else 'twice'} a pair"
        )
        steps, training_seconds, done = _train(trainer, start, config, len(kept))
    _save(trainer.model, out, reference_name)

    log = log_rows(trainer.state.log_history)
    report = TrainingReport(
        folder=str(out),
        base=reference_name,
        reference="base",
        pairs=len(kept),
        drops=drops,
        steps=steps,
        resumed_from=done,
        seconds=round(time.monotonic() - started, 3),
        seconds_per_step=round(training_seconds / max(1, steps - done), 4),
        reference_seconds=round(reference_seconds, 3),
        peak_rss_mb=round(_peak_rss_mb(), 1),
        first_loss=log[0]["loss"] if log else None,
        last_loss=tail_mean(log, "loss"),
        reading=reading(log, config.beta),
        log=log,
    )
    # The file travels with the adapter, so it does not say where it once was.
    write_json(out / "training.json", {**report.as_dict(), "folder": "."})
    _card(reference_name, kind, config, report, inputs, list(dict.fromkeys(pair.query_id for pair in kept))).write(out)
    say(f"training: {steps} steps, {report.seconds_per_step:.2f} s each; {report.reading}")
    return report


def _screen(
    pairs: Sequence[PreferencePair], tokenizer: ChatTokenizer, config: DpoConfig
) -> tuple[list[PreferencePair], dict[str, int], bool]:
    """Leave out what cannot be trained on; say how much and stop past the threshold."""
    screen = PairScreen.of(tokenizer, config.max_length)
    drops: Counter[str] = Counter()
    kept = []
    for pair in pairs:
        reason = screen.reason(pair)
        if reason:
            drops[reason] += 1
        else:
            kept.append(pair)
    if not kept:
        raise NoPairsError(PairSet(pairs=(), drops=drops, questions=len({pair.query_id for pair in pairs})))
    dropped = len(pairs) - len(kept)
    if dropped:
        table = ", ".join(f"{reason} {count}" for reason, count in sorted(drops.items()))
        message = f"{dropped} of {len(pairs)} pairs left out ({table}; max_length {config.max_length})"
        if dropped > config.max_dropped * len(pairs):
            raise ThresholdError(f"{message}: more than max_dropped = {config.max_dropped:g}; raise max_length")
        say(message)
    return kept, dict(drops), screen.system


def _trainer(
    rows: list[dict[str, Any]],
    query_ids: list[str],
    base: str,
    tokenizer: Any,
    out: Path,
    config: DpoConfig,
) -> Any:
    """Load the model and build the trainer, which computes the reference log-probabilities."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, set_seed
    from trl.trainer.dpo_trainer import DataCollatorForPreference

    from utilitune.generator import resolve_model
    from utilitune.rewrite.dpo_trainer import CheckedDPOTrainer, IndexedCollator
    from utilitune.rewrite.trl_arguments import dpo_arguments

    gpu = torch.cuda.is_available()
    bf16 = gpu and torch.cuda.is_bf16_supported()
    set_seed(config.seed)  # before anything is initialised
    source = resolve_model(base)
    model = AutoModelForCausalLM.from_pretrained(
        source,
        dtype=torch.bfloat16 if bf16 else torch.float32,
        use_safetensors=True,
        local_files_only=Path(source).is_dir(),
    )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    pad = tokenizer.pad_token_id
    model.config.pad_token_id = model.generation_config.pad_token_id = pad
    return CheckedDPOTrainer(
        query_ids=query_ids,
        model=model,
        args=dpo_arguments(config, out / "checkpoints", steps=total_steps(len(rows), config), gpu=gpu, bf16=bf16),
        data_collator=IndexedCollator(DataCollatorForPreference(pad_token_id=pad, max_length=config.max_length)),
        # In memory: datasets then caches nothing that a changed template could meet again.
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=config.lora_r,
            lora_alpha=config.lora_alpha,
            lora_dropout=config.lora_dropout,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
    )


def total_steps(pairs: int, config: DpoConfig) -> int:
    """Return the optimiser steps of a run over ``pairs`` pairs."""
    if config.max_steps > 0:
        return config.max_steps
    batches = -(-pairs // config.batch_size)
    return max(1, math.ceil(-(-batches // config.gradient_accumulation) * config.epochs))


def _train(trainer: Any, start: Path | None, config: DpoConfig, pairs: int) -> tuple[int, float, int]:
    """Train; return the steps in all, the seconds, and the step that it went on from."""
    from utilitune.rewrite.dpo_trainer import BarCallback

    done = int(start.name.rpartition("-")[2]) if start else 0
    began = time.monotonic()
    with progress("train", total_steps(pairs, config), "steps") as bar:
        trainer.add_callback(BarCallback(bar))
        trainer.train(resume_from_checkpoint=str(start) if start else None)
    return int(trainer.state.global_step), time.monotonic() - began, done


def _save(model: Any, out: Path, base: str) -> None:
    """Save the adapter with a portable base reference, without asking a hub about the base's vocabulary."""
    for settings in model.peft_config.values():
        settings.base_model_name_or_path = base
    model.save_pretrained(str(out), save_embedding_layers=False)
    # PEFT's model card is a form with nothing filled in; rewriter.json and training.json say what there is to say.
    (out / "README.md").unlink(missing_ok=True)


def _card(
    base: str, kind: str, config: DpoConfig, report: TrainingReport, inputs: dict[str, Any], query_ids: list[str]
) -> RewriterCard:
    from utilitune.generator import load_prompt

    return RewriterCard(
        base=base,
        base_kind=kind,
        prompt=config.prompt,
        prompt_hash=load_prompt(config.prompt).hash,
        max_new_tokens=config.max_new_tokens,
        training=manifest(
            "train rewriter",
            inputs=inputs,
            pairs=report.pairs,
            query_ids=query_ids,
            drops=dict(report.drops),
            steps=report.steps,
        ),
    )


def _peak_rss_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Silence the libraries' own bars and dataset cache for the length of a run; ours are shown instead."""
    import datasets
    from transformers.utils import logging as transformers_logging

    before = os.environ.get("TQDM_DISABLE")
    bars, caching = not datasets.are_progress_bars_disabled(), datasets.is_caching_enabled()
    os.environ["TQDM_DISABLE"] = "1"
    loading = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    datasets.disable_progress_bars()
    datasets.disable_caching()
    try:
        with warnings.catch_warnings():
            # Deprecations between TRL and transformers are theirs to sort out, not the user's.
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        if before is None:
            os.environ.pop("TQDM_DISABLE", None)
        else:
            os.environ["TQDM_DISABLE"] = before
        if loading:
            transformers_logging.enable_progress_bar()
        if bars:
            datasets.enable_progress_bars()
        if caching:
            datasets.enable_caching()
