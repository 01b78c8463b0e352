"""Train the rewriter on the best rewrites alone: TRL's supervised fine-tuning with a LoRA adapter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from utilitune.progress import say
from utilitune.records.pair import PreferencePair
from utilitune.rewrite.base_spec import BaseSpec, Spec
from utilitune.rewrite.chat_format import ChatFormat
from utilitune.rewrite.clean import normalise
from utilitune.rewrite.dpo import screen
from utilitune.rewrite.pairs import NoPairsError, PairScreen, PairSet
from utilitune.rewrite.policy import Policy
from utilitune.rewrite.sft_config import SftConfig
from utilitune.rewrite.tokens import load_tokenizer
from utilitune.rewrite.training_report import TrainingReport
from utilitune.rewrite.training_run import TrainingRun
from utilitune.rewrite.trl_arguments import Place, sft_arguments


def train_sft(
    pairs: Sequence[PreferencePair],
    base: Spec,
    out: Path | str,
    config: SftConfig | None = None,
    *,
    start: Path | str | None = None,
    resume: bool = False,
) -> TrainingReport:
    """Train a LoRA adapter on ``base`` to write the chosen rewrites: a warm start for ``train_dpo``.

    The loss is the mean over the completion's tokens; the prompt's are exactly those that the generator sends.

    Args:
        pairs: Preference pairs; the best ``config.per_query`` distinct chosen sides of each question are learnt.
        base: ``packaged:NAME``, Hub id or folder of a chat-tuned causal language model; or ``{"model", "revision"}``.
        out: Folder for the adapter, ``rewriter.json``, ``training.json`` and ``checkpoints/``.
        config: Settings; defaults when missing.
        start: Folder of a trained adapter to go on from; ``None`` for a fresh one.
        resume: Go on from the newest complete checkpoint in ``out``.

    Returns:
        What happened, as written to ``training.json``.

    Raises:
        NoPairsError: When no pair is left, before any model is loaded.
        ThresholdError: When more than ``config.max_dropped`` of the rewrites were left out.
        DataError: When the loss is not finite, naming the questions of the batch.
        ConfigError: For a base without chat template, a start of another base, or a resume with other inputs.
    """
    config = config or SftConfig()
    if not pairs:
        raise NoPairsError(PairSet(pairs=(), drops={}))
    tokenizer = load_tokenizer(base)
    chat = ChatFormat.of(tokenizer)
    best = best_chosen(pairs, config.per_query)
    say(f"sft: {len(best)} rewrites, the best {config.per_query} of each question in {len(pairs)} pairs")
    kept, drops = screen(best, PairScreen(chat, config.max_length), config)
    run = TrainingRun(
        method="sft",
        base=BaseSpec.of(base),
        start=None if start is None else Path(start),
        tokenizer=tokenizer,
        out=Path(out),
        config=config,
        rows=[_row(pair, chat, index) for index, pair in enumerate(kept)],
        query_ids=[pair.query_id for pair in kept],
        reference="none",
        drops=drops,
    )
    return run.train(lambda policy, place: make_trainer(run, config, policy, place), resume=resume)


def best_chosen(pairs: Iterable[PreferencePair], per_query: int) -> list[PreferencePair]:
    """Return one pair for each of the best distinct chosen sides of a question, in order of the questions.

    Args:
        pairs: Pairs, any number a question.
        per_query: Rewrites a question, >= 1.

    Returns:
        Pairs with distinct chosen sides.
    """
    found: dict[str, dict[str, PreferencePair]] = {}
    for pair in pairs:
        text = normalise(" ".join(message["content"] for message in pair.chosen))
        found.setdefault(pair.query_id, {}).setdefault(text, pair)
    return [
        pair
        for distinct in found.values()
        for pair in sorted(distinct.values(), key=lambda pair: -pair.chosen_utility)[:per_query]
    ]


def make_trainer(run: TrainingRun, config: SftConfig, policy: Policy, place: Place) -> Any:
    """Build TRL's trainer over rows that are token ids already, so that it renders nothing another way."""
    from datasets import Dataset
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    from utilitune.rewrite.indexed_collator import IndexedCollator
    from utilitune.rewrite.sft_trainer import CheckedSFTTrainer

    return CheckedSFTTrainer(
        query_ids=run.query_ids,
        model=policy.model,
        args=sft_arguments(config, place),
        data_collator=IndexedCollator(DataCollatorForLanguageModeling(pad_token_id=run.tokenizer.pad_token_id)),
        # In memory: datasets then caches nothing that a changed template could meet again.
        train_dataset=Dataset.from_list(list(run.rows)),
        processing_class=run.tokenizer,
        peft_config=policy.peft_config,
    )


def _row(pair: PreferencePair, chat: ChatFormat, index: int) -> dict[str, Any]:
    asked, answered = chat.asked_and_answered(pair.prompt, pair.chosen)
    ids = asked + answered
    return {"input_ids": ids, "labels": [-100] * len(asked) + answered, "pair_index": index}
