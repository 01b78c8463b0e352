"""Train the rewriter on preference pairs: TRL's DPO with a LoRA adapter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError, ThresholdError
from utilitune.progress import say
from utilitune.records.pair import PreferencePair
from utilitune.rewrite.base_spec import BaseSpec, Spec
from utilitune.rewrite.chat_format import ChatFormat
from utilitune.rewrite.dpo_config import DpoConfig
from utilitune.rewrite.pairs import NoPairsError, PairScreen, PairSet
from utilitune.rewrite.policy import Policy
from utilitune.rewrite.tokens import load_tokenizer
from utilitune.rewrite.training_config import TrainingConfig
from utilitune.rewrite.training_report import TrainingReport
from utilitune.rewrite.training_run import TrainingRun
from utilitune.rewrite.trl_arguments import Place, dpo_arguments


def train_dpo(
    pairs: Sequence[PreferencePair],
    base: Spec,
    out: Path | str,
    config: DpoConfig | None = None,
    *,
    start: Path | str | None = None,
    resume: bool = False,
) -> TrainingReport:
    """Train a LoRA adapter on ``base`` so that it writes the chosen side of the pairs.

    The reference is where the policy starts (without ``start`` the base itself: a fresh adapter is no change),
    or the base; its log-probabilities are computed once. Pairs that cannot teach anything or do not fit are left
    out and counted before the model is loaded. At step 0 policy and reference are compared: they must agree
    when the reference is the start, and differ when it is the base of an adapter.

    Args:
        pairs: Preference pairs.
        base: ``packaged:NAME``, Hub id or folder of a chat-tuned causal language model; or ``{"model", "revision"}``.
        out: Folder for the adapter, ``rewriter.json``, ``training.json`` and ``checkpoints/``.
        config: Settings; defaults when missing.
        start: Folder of a trained adapter to go on from, such as ``train_sft``'s; ``None`` for a fresh one.
        resume: Go on from the newest complete checkpoint in ``out``.

    Returns:
        What happened, as written to ``training.json``.

    Raises:
        NoPairsError: When no pair is left, before any model is loaded.
        ThresholdError: When more than ``config.max_dropped`` of the pairs were left out.
        DataError: When the loss is not finite, naming the questions of the batch.
        ConfigError: For a base without chat template, a start of another base, or a resume with other inputs.
    """
    config = config or DpoConfig()
    if not pairs:
        raise NoPairsError(PairSet(pairs=(), drops={}))
    spec = BaseSpec.of(base)
    if start is None and config.reference == "base":
        config = config.model_copy(update={"reference": "start"})  # the same thing
    tokenizer = load_tokenizer(base)
    chat = ChatFormat.of(tokenizer)
    kept, drops = screen(pairs, PairScreen(chat, config.max_length), config)
    reference = "base" if start is None or config.reference == "base" else "start"
    run = TrainingRun(
        method="dpo",
        base=spec,
        start=None if start is None else Path(start),
        tokenizer=tokenizer,
        out=Path(out),
        config=config,
        rows=[{**chat.row(pair), "pair_index": index} for index, pair in enumerate(kept)],
        query_ids=[pair.query_id for pair in kept],
        reference=reference,
        drops=drops,
    )
    say(f"reference: {'the base' if reference == 'base' else f'the adapter in {start}, as it is before training'}")
    return run.train(lambda policy, place: make_trainer(run, config, policy, place), resume=resume)


def screen(
    pairs: Sequence[PreferencePair], rules: PairScreen, config: TrainingConfig
) -> tuple[list[PreferencePair], dict[str, int]]:
    """Leave out what cannot be trained on; say how much and stop past the threshold.

    Args:
        pairs: Pairs.
        rules: The checks.
        config: Settings, for the threshold.

    Returns:
        The pairs left, and ``{reason: pairs}`` dropped.

    Raises:
        NoPairsError: When none is left.
        ThresholdError: When too many were left out.
    """
    if rules.chat is None:
        raise ConfigError("training needs the tokenizer of its base to screen pairs")
    reasons = [rules.reason(pair) for pair in pairs]
    drops = Counter(reason for reason in reasons if reason)
    kept = [pair for pair, reason in zip(pairs, reasons, strict=True) if not reason]
    if not kept:
        raise NoPairsError(PairSet(pairs=(), drops=drops, questions=len({pair.query_id for pair in pairs})))
    dropped = len(pairs) - len(kept)
    if dropped:
        table = ", ".join(f"{reason} {count}" for reason, count in sorted(drops.items()))
        message = f"{dropped} of {len(pairs)} pairs left out ({table}; max_length {config.max_length})"
        if dropped > config.max_dropped * len(pairs):
            raise ThresholdError(f"{message}: more than max_dropped = {config.max_dropped:g}; raise max_length")
        say(message)
    armed = sum(rules.chat.is_armed(pair) for pair in kept)
    if armed:
        say(f"{armed} pairs hold text that looks like a special token of the base; it is split, as in every prompt")
    return kept, dict(drops)


def make_trainer(run: TrainingRun, config: DpoConfig, policy: Policy, place: Place) -> Any:
    """Build TRL's trainer, which computes the reference log-probabilities."""
    from datasets import Dataset
    from trl.trainer.dpo_trainer import DataCollatorForPreference

    from utilitune.rewrite.dpo_trainer import CheckedDPOTrainer
    from utilitune.rewrite.indexed_collator import IndexedCollator

    pad = run.tokenizer.pad_token_id
    trainer = CheckedDPOTrainer(
        query_ids=run.query_ids,
        reference=config.reference,
        model=policy.model,
        args=dpo_arguments(config, place),
        data_collator=IndexedCollator(DataCollatorForPreference(pad_token_id=pad, max_length=config.max_length)),
        # In memory: datasets then caches nothing that a changed template could meet again.
        train_dataset=Dataset.from_list(list(run.rows)),
        processing_class=run.tokenizer,
        peft_config=policy.peft_config,
    )
    once = trainer.sharing is not None and trainer.sharing.on
    say(f"reference: log-probabilities of {len(run.rows)} pairs computed once; each prompt runs {1 if once else 2}x")
    return trainer
