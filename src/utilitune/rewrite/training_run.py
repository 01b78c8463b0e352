"""What every training of the rewriter does around its trainer: checkpoints, progress, the folder, the report."""

from __future__ import annotations

import hashlib
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from utilitune.progress import progress, say
from utilitune.records import manifest, write_json
from utilitune.rewrite.adapter_folder import RewriterCard, portable_base
from utilitune.rewrite.base_spec import BaseSpec
from utilitune.rewrite.checkpoints import prepare
from utilitune.rewrite.policy import Policy, check_start, load_policy
from utilitune.rewrite.quiet_libraries import quiet_libraries
from utilitune.rewrite.training_config import TrainingConfig
from utilitune.rewrite.training_report import TrainingReport, log_rows, reading, tail_mean
from utilitune.rewrite.trl_arguments import Place

MakeTrainer = Callable[[Policy, Place], Any]


@dataclass(frozen=True)
class TrainingRun:
    """One training, before any model is loaded.

    Attributes:
        method: ``sft``, ``dpo`` or ``grpo``.
        base: What to tune.
        start: Adapter to go on from, ``None`` for a fresh one.
        tokenizer: Tokenizer of the base.
        out: Folder of the result.
        config: Settings.
        rows: What is trained on, JSON-ready.
        query_ids: The question of each row.
        reference: What the policy is compared with, for a reader.
        drops: ``{reason: rows}`` left out.
        inputs: More that makes the run what it is, JSON-ready.
        relative: Whether a live reward compares the samples of one step alone.
    """

    method: str
    base: BaseSpec
    start: Path | None
    tokenizer: Any
    out: Path
    config: TrainingConfig
    rows: Sequence[Mapping[str, Any]]
    query_ids: Sequence[str]
    reference: str
    drops: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    relative: bool = False

    @property
    def steps(self) -> int:
        """Optimiser steps in all."""
        config = self.config
        if config.max_steps > 0:
            return config.max_steps
        batches = -(-len(self.rows) // config.batch_size)
        return max(1, math.ceil(-(-batches // config.gradient_accumulation) * config.epochs))

    def train(self, make: MakeTrainer, *, resume: bool) -> TrainingReport:
        """Train, save the adapter with its card, and report.

        Args:
            make: Makes the TRL trainer.
            resume: Go on from the newest complete checkpoint in ``out``.

        Returns:
            What happened, as written to ``training.json``.

        Raises:
            ConfigError: For a start of another base, or a resume with other inputs.
        """
        import torch

        check_start(self.start, self.base)
        inputs = self._inputs()
        checkpoints = self.out / "checkpoints"
        start = prepare(checkpoints, inputs, resume=resume)
        done = int(start.name.rpartition("-")[2]) if start else 0
        began = time.monotonic()
        gpu = torch.cuda.is_available()
        bf16 = gpu and torch.cuda.is_bf16_supported()
        with quiet_libraries():
            policy = load_policy(self.base, self.start, self.tokenizer, self.config, gpu=gpu, bf16=bf16)
            trainer = make(policy, Place(checkpoints, self.steps, gpu=gpu, bf16=bf16))
            ready = time.monotonic()
            self._loop(trainer, start)
        _save(trainer.model, self.out, inputs["base"], policy.revision)
        log = log_rows(trainer.state.log_history, self.method)
        steps = int(trainer.state.global_step)
        report = TrainingReport(
            folder=str(self.out),
            method=self.method,
            base=inputs["base"],
            reference=self.reference,
            rows=len(self.rows),
            drops=dict(self.drops),
            steps=steps,
            resumed_from=done,
            seconds=round(time.monotonic() - began, 3),
            seconds_per_step=round((time.monotonic() - ready) / max(1, steps - done), 4),
            setup_seconds=round(ready - began, 3),
            peak_rss_mb=round(_peak_rss_mb(), 1),
            first_loss=log[0]["loss"] if log else None,
            last_loss=tail_mean(log, "loss"),
            reading=reading(log, self.method, float(getattr(self.config, "beta", 0.0)), relative=self.relative),
            log=log,
        )
        # The file travels with the adapter, so it does not say where it once was.
        write_json(self.out / "training.json", {**report.as_dict(), "folder": "."})
        self._card(inputs, policy.revision, report).write(self.out)
        say(f"training ({self.method}): {steps} steps, {report.seconds_per_step:.2f} s each; {report.reading}")
        return report

    def _inputs(self) -> dict[str, Any]:
        from utilitune.generator.weights_hash import model_hash

        return {
            "method": self.method,
            "config": self.config.model_dump(mode="json"),
            "base": portable_base(self.base.model, self.out)[0],
            "revision": self.base.revision,
            "start": model_hash(self.start) if self.start else "",
            "rows": hashlib.sha256(json.dumps(list(self.rows), sort_keys=True).encode()).hexdigest(),
            "chat_template": hashlib.sha256(str(self.tokenizer.chat_template).encode()).hexdigest(),
            **self.inputs,
        }

    def _loop(self, trainer: Any, start: Path | None) -> None:
        from transformers import PrinterCallback

        from utilitune.rewrite.bar_callback import BarCallback

        trainer.remove_callback(PrinterCallback)
        with progress(f"train {self.method}", self.steps, "steps") as bar:
            trainer.add_callback(BarCallback(bar))
            trainer.train(resume_from_checkpoint=str(start) if start else None)

    def _card(self, inputs: Mapping[str, Any], revision: str, report: TrainingReport) -> RewriterCard:
        from utilitune.generator import load_prompt

        earlier = RewriterCard.read(self.start).training if self.start else {}
        return RewriterCard(
            base=inputs["base"],
            base_kind=portable_base(self.base.model, self.out)[1],
            base_revision=revision,
            method=self.method,
            prompt=self.config.prompt,
            prompt_hash=load_prompt(self.config.prompt).hash,
            max_new_tokens=self.config.max_new_tokens,
            training=manifest(
                "train rewriter",
                inputs=dict(inputs),
                rows=report.rows,
                # What the adapter it started from had seen counts as seen.
                query_ids=list(dict.fromkeys([*self.query_ids, *earlier.get("query_ids", ())])),
                drops=dict(report.drops),
                steps=report.steps,
                start={key: value for key, value in earlier.items() if key != "query_ids"},
            ),
        )


def _save(model: Any, out: Path, base: str, revision: str) -> None:
    """Save the adapter with a portable base reference, without asking a hub about the base's vocabulary."""
    for settings in model.peft_config.values():
        settings.base_model_name_or_path = base
        settings.revision = revision or None
    model.save_pretrained(str(out), save_embedding_layers=False, selected_adapters=["default"])
    # PEFT's model card is a form with nothing filled in; an export writes one that says something.
    (out / "README.md").unlink(missing_ok=True)


def _peak_rss_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)
