"""Train the rewriter on a live reward: TRL's GRPO with a LoRA adapter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError, DataError, ThresholdError
from utilitune.generator.rendering import FIXED
from utilitune.progress import say
from utilitune.records.query import Query
from utilitune.rewrite.base_spec import BaseSpec, Spec
from utilitune.rewrite.chat_format import ChatFormat
from utilitune.rewrite.grpo_config import GrpoConfig
from utilitune.rewrite.live_reward import LiveReward
from utilitune.rewrite.policy import Policy
from utilitune.rewrite.sample import messages
from utilitune.rewrite.tokens import load_tokenizer
from utilitune.rewrite.training_report import TrainingReport
from utilitune.rewrite.training_run import TrainingRun
from utilitune.rewrite.trl_arguments import Place, grpo_arguments


def train_grpo(
    queries: Sequence[Query],
    base: Spec,
    out: Path | str,
    reward: LiveReward,
    config: GrpoConfig | None = None,
    *,
    start: Path | str | None = None,
    resume: bool = False,
) -> TrainingReport:
    """Train a LoRA adapter on ``base`` to write what retrieves passages of high utility; no gold is read.

    Every step samples ``config.generations`` rewrites of each question, retrieves with each, labels what it finds
    with the reward's generator, and raises the probability of the samples that are worth more than their mean.

    Args:
        queries: Conversational questions.
        base: ``packaged:NAME``, Hub id or folder of a chat-tuned causal language model; or ``{"model", "revision"}``.
        out: Folder for the adapter, ``rewriter.json``, ``training.json`` and ``checkpoints/``.
        reward: Gives the samples their utility.
        config: Settings; defaults when missing.
        start: Folder of a trained adapter to go on from; ``None`` for a fresh one.
        resume: Go on from the newest complete checkpoint in ``out``.

    Returns:
        What happened, as written to ``training.json``.

    Raises:
        DataError: When no question is left, or the loss is not finite, naming the questions of the batch.
        ThresholdError: When more than ``config.max_dropped`` of the prompts do not fit.
        ConfigError: For a base without chat template, fewer questions than a batch, a start of another base, or a
            resume with other inputs.
    """
    from utilitune.generator import load_prompt

    config = config or GrpoConfig()
    tokenizer = load_tokenizer(base)
    chat, template = ChatFormat.of(tokenizer), load_prompt(config.prompt)
    rows: list[dict[str, Any]] = []
    long = 0
    for query in queries:
        prompt = chat.prompt(messages(template.render(question=query.text, history=query.history)))
        if len(chat.ids(prompt, add_generation_prompt=True)) + config.max_new_tokens > config.max_length:
            long += 1
        else:
            rows.append({"prompt": prompt, "query_id": query.id})
    _check(rows, long, config)
    run = TrainingRun(
        method="grpo",
        base=BaseSpec.of(base),
        start=None if start is None else Path(start),
        tokenizer=tokenizer,
        out=Path(out),
        config=config,
        rows=rows,
        query_ids=[row["query_id"] for row in rows],
        reference="start" if config.beta else "none",
        drops={"too-long": long} if long else {},
        inputs={"reward": reward.inputs},
        relative=reward.is_relative,
    )
    report = run.train(lambda policy, place: make_trainer(run, config, reward, policy, place), resume=resume)
    say("reward: " + ", ".join(f"{name} {count}" for name, count in reward.counts.items()))
    return report


def _check(rows: Sequence[object], long: int, config: GrpoConfig) -> None:
    if not rows:
        raise DataError(f"no question is left to train on: {long} prompts are longer than max_length allows")
    if long > config.max_dropped * (len(rows) + long):
        raise ThresholdError(
            f"{long} of {len(rows) + long} prompts leave no room for a rewrite in max_length {config.max_length}: "
            f"more than max_dropped = {config.max_dropped:g}; raise max_length"
        )
    if long:
        say(f"{long} of {len(rows) + long} prompts left out (longer than max_length {config.max_length} allows)")
    wanted = config.batch_size * config.gradient_accumulation
    if len(rows) < wanted:
        # TRL would drop the one batch that it cannot fill, and train on nothing.
        raise ConfigError(
            f"{len(rows)} questions, and a step takes {wanted} (batch_size x gradient_accumulation); "
            "give more questions or a smaller batch"
        )


def make_trainer(run: TrainingRun, config: GrpoConfig, reward: LiveReward, policy: Policy, place: Place) -> Any:
    """Build TRL's trainer."""
    from datasets import Dataset

    from utilitune.rewrite.grpo_trainer import CheckedGRPOTrainer

    return CheckedGRPOTrainer(
        reward=reward,
        model=policy.model,
        args=grpo_arguments(config, place, FIXED),
        train_dataset=Dataset.from_list([dict(row) for row in run.rows]),
        processing_class=run.tokenizer,
        peft_config=policy.peft_config,
    )
