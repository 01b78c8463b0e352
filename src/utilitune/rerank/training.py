"""Fine-tunes a reranker on utility groups with sentence-transformers' ``CrossEncoderTrainer``."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.progress import say, warn
from utilitune.rerank.config import RerankerConfig
from utilitune.rerank.decoder_config import WHOLE_QUERY, DecoderConfig
from utilitune.rerank.dev_measure import DevMeasure, measure
from utilitune.rerank.epoch_report import EpochReport
from utilitune.rerank.groups import Group, Groups
from utilitune.rerank.losses import LOSSES, Layout, build_loss, fit_targets, rows, temperatures
from utilitune.rerank.pair_trimmer import PairTrimmer
from utilitune.rerank.report import TrainingReport
from utilitune.rerank.split import as_groups, sides

REPORT_FILE = "training.json"
TRUNCATION_WARNING = 0.1  # share of the pairs


def train_reranker(
    groups: Groups | Sequence[Group],
    base: str,
    out: Path | str,
    config: RerankerConfig | None = None,
    *,
    dev_groups: Groups | Sequence[Group] | None = None,
    decoder: DecoderConfig | None = None,
) -> TrainingReport:
    """Train, keep the best epoch on held-out queries (by nDCG, or as ``config.choose_by`` says), save.

    If no epoch beats the untrained model, or the scores have become one constant, the untrained weights are
    what is saved, and the report and a warning say so.

    Args:
        groups: Training groups.
        base: Encoder, decoder or reranker to start from: ``packaged:NAME``, folder, Hub id.
        out: Folder to write: a plain ``CrossEncoder`` folder plus ``training.json``.
        config: Settings.
        dev_groups: Groups to choose the epoch by; ``None`` holds out ``config.dev_share`` of the
            conversations.
        decoder: How a causal language model scores, with a LoRA adapter that is trained instead of its weights;
            ``None`` puts ``config.head`` on the base and trains all of it. A query is never cut then.

    Returns:
        The report that is also in ``training.json``.

    Raises:
        ConfigError: If settings are wrong, or targets do not fit the loss.
        DataError: If there are no groups.
    """
    config = config or RerankerConfig()
    config.check()
    if decoder is not None and config.head == "similarity":
        raise ConfigError("head 'similarity' is an encoder's; a decoder scores by DecoderConfig.head: leave head out")
    train, dev, measured_on = sides(as_groups(groups), dev_groups, dev_share=config.dev_share, seed=config.seed)
    train = fit_targets(train, config)
    target_temperature, score_temperature = temperatures(train, config)
    config = replace(config, target_temperature=target_temperature, score_temperature=score_temperature)

    if decoder is not None:
        decoder.check()
        config = replace(config, query_share=WHOLE_QUERY)

    # Only now, with the data known to be good, is anything heavy loaded.
    from utilitune.rerank.reranker import save_reranker

    model = _new_model(base, config, decoder)
    trimmer = PairTrimmer(model.tokenizer, model.max_seq_length, config.query_share)
    watch = _Watch(model, dev, config)
    say(
        f"rerank training: {len(train)} queries, {train.pairs} pairs, loss {config.loss}, dev nDCG@10 on "
        f"{len(dev)} {measured_on} queries, {watch.epochs[0].dev.ndcg:.3f} untrained"
    )
    steps, seconds = _run(model, _trimmed(train, trimmer), config, watch)
    kept, collapsed, warnings = watch.choose()
    warnings += _truncation_warnings(trimmer)
    if measured_on == "train":
        warnings.append("no held-out queries: the epoch was chosen on the training queries themselves")
    for message in warnings:
        warn(message)
    report = TrainingReport(
        base=base,
        out=str(out),
        config={**config.as_dict(), "decoder": decoder.as_dict() if decoder else None},
        groups=len(train),
        pairs=train.pairs,
        steps=steps,
        measured_on=measured_on,
        epochs=watch.epochs,
        kept_epoch=kept,
        collapsed=collapsed,
        warnings=warnings,
        truncation={"train": dict(trimmer.counts), "dev": watch.truncation()},
        max_length=model.max_seq_length,
        activation="torch.nn.modules.linear.Identity",
        seconds=seconds,
        pairs_per_second=train.pairs * (watch.epochs[-1].epoch) / max(seconds, 1e-9),
        device=str(model.device),
        targets=train.account(),
        drops=train.drops,
        queries={"train": [group.query_id for group in train], "dev": [group.query_id for group in dev]},
    )
    save_reranker(model, Path(out), query_share=config.query_share)
    _write_report(Path(out), report)
    say(f"rerank training: kept epoch {kept}, dev nDCG@10 {report.kept.ndcg:.3f}")
    return report


def _new_model(base: str, config: RerankerConfig, decoder: DecoderConfig | None) -> Any:
    if decoder is None:
        from utilitune.rerank.cross_encoder import new_cross_encoder

        return new_cross_encoder(
            base, seed=config.seed, max_length=config.max_length, device=config.device, head=config.head
        )
    from utilitune.rerank.decoder_model import new_decoder

    return new_decoder(base, decoder, seed=config.seed, max_length=config.max_length, device=config.device)


def _trimmed(groups: Groups, trimmer: PairTrimmer) -> list[Group]:
    fitted = []
    for group in groups:
        pairs = trimmer.trim([(group.query, passage) for passage in group.passages])
        # The trimmer cuts a query to the same words whatever the passage.
        fitted.append(replace(group, query=pairs[0][0], passages=tuple(passage for _, passage in pairs)))
    return fitted


def _truncation_warnings(trimmer: PairTrimmer) -> list[str]:
    share = trimmer.truncated_share
    if share <= TRUNCATION_WARNING:
        return []
    return [f"{share:.0%} of the training pairs are longer than {trimmer.limit} tokens and were shortened"]


class _Watch:
    """Measures after every epoch and keeps the best weights in memory."""

    def __init__(self, model: Any, dev: Sequence[Group], config: RerankerConfig) -> None:
        self.model = model
        self.dev = dev
        self.config = config
        self.trimmer = PairTrimmer(model.tokenizer, model.max_seq_length, config.query_share)
        self.best_weights = self._weights()
        self.best = 0
        self.untrained_weights = self.best_weights
        self.epochs = [EpochReport(0, self._measure())]
        self.pause = 0.0  # seconds spent measuring

    def after_epoch(self, epoch: int, loss: float | None) -> None:
        """Measure; remember the weights if no trained ones were better (of equal ones the later)."""
        started = time.monotonic()
        entry = EpochReport(epoch, self._measure(), loss)
        best = self.epochs[self.best].dev if self.best else None
        self.epochs.append(entry)
        if self._sound(entry.dev) and (best is None or self._worth(entry.dev) >= self._worth(best)):
            self.best, self.best_weights = len(self.epochs) - 1, self._weights()
        say(f"rerank training: epoch {epoch}, loss {loss}, dev nDCG@10 {entry.dev.ndcg:.3f}")
        self.pause += time.monotonic() - started

    def choose(self) -> tuple[int, bool, list[str]]:
        """Load the weights to keep into the model; say which, whether training failed, and why."""
        untrained, warnings = self.epochs[0].dev, []
        if not self.best:
            last = self.epochs[-1].dev
            warnings.append(
                "training collapsed: the scores within a query "
                + (f"hold {last.non_finite} numbers that are not finite" if last.non_finite else "have become equal")
                + f" (spread {last.spread:.2g}, {self.config.min_spread:g} at least); the untrained model "
                "was kept. Lower the learning rate or look at the labels"
            )
        elif self._worth(self.epochs[self.best].dev) < self._worth(untrained):
            warnings.append(
                f"training made it worse: dev {self.config.choose_by} {self._worth(self.epochs[self.best].dev):.3f} "
                f"at best, {self._worth(untrained):.3f} untrained; the untrained model was kept"
            )
            self.best, self.best_weights = 0, self.untrained_weights
        self.model.load_state_dict(self.best_weights, strict=False)
        return self.epochs[self.best].epoch, self.best == 0, warnings

    def truncation(self) -> dict[str, int]:
        """Return the counts of one pass over the dev pairs."""
        return {kind: count // len(self.epochs) for kind, count in self.trimmer.counts.items()}

    def _worth(self, dev: DevMeasure) -> float:
        return dev.worth(self.config.choose_by)

    def _sound(self, dev: DevMeasure) -> bool:
        return dev.non_finite == 0 and dev.spread >= self.config.min_spread

    def _weights(self) -> dict[str, Any]:
        # Of a LoRA training a small part of the weights.
        trained = ((name, value) for name, value in self.model.named_parameters() if value.requires_grad)
        return {name: value.detach().cpu().clone() for name, value in trained}

    def _measure(self) -> DevMeasure:
        from utilitune.rerank.pair_scores import score_pairs

        pairs = [(group.query, passage) for group in self.dev for passage in group.passages]
        flat = iter(score_pairs(self.model, self.trimmer, pairs, what="dev check"))
        return measure(self.dev, [[next(flat) for _ in range(group.size)] for group in self.dev])


def _batch_rows(layout: Layout, config: RerankerConfig, columns: dict[str, list[Any]]) -> int:
    if layout == "pairs":
        return config.batch_pairs
    mean = 2.0 if layout == "margins" else sum(map(len, columns["label"])) / len(columns["label"])
    return max(1, round(config.batch_pairs / mean))


def _run(model: Any, groups: list[Group], config: RerankerConfig, watch: _Watch) -> tuple[int, float]:
    """Run the trainer; return (steps, seconds without the dev checks)."""
    from datasets import Dataset
    from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments
    from transformers import PrinterCallback

    from utilitune.progress import progress
    from utilitune.rerank.card_free import RerankerTrainer
    from utilitune.rerank.trainer_arguments import shared_arguments
    from utilitune.rerank.training_callback import TrainingCallback

    loss = LOSSES[config.loss]
    columns = rows(groups, loss.layout)
    batch = _batch_rows(loss.layout, config, columns)
    steps = -(-len(columns["query"]) // batch) * config.epochs
    with tempfile.TemporaryDirectory() as scratch, progress("train reranker", steps, "steps") as bar:
        arguments = CrossEncoderTrainingArguments(
            **shared_arguments(config, batch=batch, steps=steps, on_cpu=str(model.device) == "cpu"),
            output_dir=scratch,
            save_strategy="no",
            eval_strategy="no",
        )
        trainer = RerankerTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict(columns),
            loss=build_loss(config.loss, model, config.target_temperature or 1.0, config.score_temperature),
            callbacks=[TrainingCallback(bar, watch.after_epoch)],
        )
        trainer.remove_callback(PrinterCallback)
        started = time.monotonic()
        trainer.train()
        seconds = time.monotonic() - started - watch.pause
    return int(trainer.state.global_step), seconds


def _write_report(out: Path, report: TrainingReport) -> None:
    from utilitune.records import manifest, write_json

    write_json(out / REPORT_FILE, {**report.as_dict(), "manifest": manifest()})
