"""Fine-tunes a dense encoder on utility groups with sentence-transformers' ``SentenceTransformerTrainer``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utilitune.errors import DataError
from utilitune.progress import say, warn
from utilitune.rerank.config import RerankerConfig
from utilitune.rerank.epoch_report import EpochReport
from utilitune.rerank.groups import Group, Groups
from utilitune.rerank.losses import fit_targets, temperatures
from utilitune.rerank.split import as_groups, sides
from utilitune.rerank.student.base import cut_counts, open_student, prompts_of
from utilitune.rerank.student.checkpoints import prepare, step_of
from utilitune.rerank.student.config import RetrieverConfig
from utilitune.rerank.student.fitting import fit
from utilitune.rerank.student.pool import Pool, PoolMeasure
from utilitune.rerank.student.report import RetrieverReport, epochs_of
from utilitune.rerank.student.teacher import taught

if TYPE_CHECKING:
    from utilitune.rerank.reranker import UtilityReranker

REPORT_FILE = "training.json"
CHECKPOINTS = "checkpoints"
CUT_WARNING = 0.1  # share of the passages


def train_retriever(
    groups: Groups | Sequence[Group],
    encoder: str,
    out: Path | str,
    config: RetrieverConfig | None = None,
    *,
    dev_groups: Groups | Sequence[Group] | None = None,
    teacher: UtilityReranker | None = None,
    resume: bool = False,
) -> RetrieverReport:
    """Train, keep the best epoch by nDCG@10 of held-out queries in a pool of passages, save.

    If no epoch beats the untrained encoder, or all texts have become one vector, the untrained weights are what is
    saved, and the report and a warning say so. Queries and passages get the prompts that the encoder states, as in
    retrieval.

    Args:
        groups: Training groups.
        encoder: ``packaged:NAME``, folder or Hub id of a sentence-transformers encoder.
        out: Folder to write: an encoder folder for ``DenseRetriever.build(encoder=out)`` plus ``training.json``; its
            ``checkpoints`` can be deleted.
        config: Settings.
        dev_groups: Groups to choose the epoch by; ``None`` holds out ``config.dev_share`` of the conversations.
        teacher: Learn from this reranker's scores instead of the groups' targets. What chooses the epoch stays the
            held-out groups' utilities.
        resume: Go on from the newest complete checkpoint in ``out``.

    Returns:
        The report that is also in ``training.json``.

    Raises:
        ConfigError: If settings are wrong, targets do not fit the loss, or a resumed run has other inputs.
        DataError: If there are no groups, or one has a single candidate.
    """
    config = config or RetrieverConfig()
    config.check()
    out = Path(out)
    train, dev, measured_on = sides(as_groups(groups), dev_groups, dev_share=config.dev_share, seed=config.seed)
    if teacher is not None:
        train = as_groups(taught(train, teacher))
    lonely = [group.query_id for group in train if group.size < 2]
    if lonely:
        raise DataError(
            f"{len(lonely)} groups have one candidate (first: {lonely[0]!r}); a retriever learns from two or more"
        )
    # Targets are those of a reranker, and so are the rules about them.
    rules = RerankerConfig(loss=config.loss, rescale=config.rescale, target_temperature=config.target_temperature)
    train = fit_targets(train, rules)
    config = replace(config, target_temperature=temperatures(train, rules)[0])

    # Only now, with the data known to be good, is anything heavy loaded.
    from utilitune.rerank.student.evaluator import PoolEvaluator
    from utilitune.rerank.student.loss import StudentLoss

    model = open_student(encoder, config)
    config = replace(config, score_temperature=config.score_temperature or _matching(model, train, dev, config))
    start = prepare(out / CHECKPOINTS, _inputs(train, dev, model, config), resume=resume)
    evaluator = PoolEvaluator(Pool.of(dev, train.groups, config.pool), config.min_spread)
    loss = StudentLoss(
        model,
        config.loss,
        target_temperature=config.target_temperature or 1.0,
        score_temperature=config.score_temperature or 1.0,
        in_batch=config.in_batch,
        in_batch_temperature=config.in_batch_temperature,
    )
    say(f"retriever training: {len(train)} queries, {train.pairs} pairs, loss {config.loss}, {measured_on} dev queries")
    state, seconds = fit(model, loss, train, evaluator, config, out / CHECKPOINTS, start)
    epochs = epochs_of(state.log_history)
    kept, warnings = _choose(epochs, config)
    if not kept:
        model = open_student(encoder, config)
    cut = cut_counts(model, train)
    if cut["passages_cut"] > CUT_WARNING * train.pairs:
        warnings.append(
            f"{cut['passages_cut']} of {train.pairs} training passages are longer than the encoder's window of "
            f"{model.max_seq_length} tokens; their ends are not read"
        )
    if measured_on == "train":
        warnings.append("no held-out queries: the epoch was chosen on the training queries themselves")
    for message in warnings:
        warn(message)
    report = RetrieverReport(
        encoder=encoder,
        out=str(out),
        teacher=list(train.label_sets),
        config=config.as_dict(),
        groups=len(train),
        pairs=train.pairs,
        steps=int(state.global_step),
        resumed_from=step_of(start),
        measured_on=measured_on,
        epochs=epochs,
        kept_epoch=kept,
        collapsed=not kept,
        warnings=warnings,
        counts={**cut, **loss.counts},
        prompts=prompts_of(model),
        max_length=int(model.max_seq_length),
        seconds=seconds,
        device=str(model.device),
        drops=train.drops,
        queries={"train": [group.query_id for group in train], "dev": [group.query_id for group in dev]},
    )
    _save(model, out, report)
    say(f"retriever training: kept epoch {kept}, held-out nDCG@10 {report.kept.ndcg:.3f}")
    return report


def _matching(model: Any, train: Groups, dev: Sequence[Group], config: RetrieverConfig) -> float:
    """Return the temperature at which the untrained encoder's scores vary within a query as much as the targets do."""
    from statistics import fmean, pstdev

    from utilitune.rerank.student.evaluator import measure_encoder

    cosines = measure_encoder(model, Pool.of(dev, [], 1)).spread
    targets = fmean(pstdev(group.targets) for group in train)
    # margin-mse takes the targets as they are.
    tempered = targets / (config.target_temperature or 1.0) if config.loss == "listwise-kl" else targets
    # Three digits, so that a resumed run finds the same.
    chosen = float(f"{max(cosines, config.min_spread, 1e-4) / tempered:.3g}")
    say(
        f"retriever training: score temperature {chosen:g}, at which the untrained cosines (spread {cosines:.3f} in a "
        f"query) vary as the targets do ({tempered:.3g})"
    )
    return chosen


def _inputs(train: Groups, dev: Sequence[Group], model: Any, config: RetrieverConfig) -> dict[str, Any]:
    from utilitune.retrieval.encoder import Encoder

    rows = [asdict(group) for group in (*train, *dev)]
    return {
        "config": config.as_dict(),
        "encoder": Encoder(model).identity.weights,
        "groups": hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest(),
    }


def _choose(epochs: Sequence[EpochReport[PoolMeasure]], config: RetrieverConfig) -> tuple[int, list[str]]:
    """Return the epoch to keep, 0 for the untrained encoder, and why if it is that."""
    untrained, trained = epochs[0].dev, epochs[1:]
    sound = [entry for entry in trained if not entry.dev.non_finite and entry.dev.spread >= config.min_spread]
    if not sound:
        last = trained[-1].dev
        return 0, [
            "training collapsed: the cosines within a query "
            + (f"hold {last.non_finite} numbers that are not finite" if last.non_finite else "have become equal")
            + f" (spread {last.spread:.2g}, {config.min_spread:g} at least); the untrained encoder was kept. "
            "Lower the learning rate or look at the labels"
        ]
    best = max(sound, key=lambda entry: entry.dev.ndcg)
    if best.dev.ndcg < untrained.ndcg:
        return 0, [
            f"training made it worse: held-out nDCG@10 {best.dev.ndcg:.3f} at best, {untrained.ndcg:.3f} untrained; "
            "the untrained encoder was kept"
        ]
    return best.epoch, []


def _save(model: Any, out: Path, report: RetrieverReport) -> None:
    from utilitune.records import manifest, write_json, write_text
    from utilitune.rerank.cross_encoder import quiet_loading

    with quiet_loading():
        model.save_pretrained(str(out), create_model_card=False, safe_serialization=True)
    write_text(out / "README.md", _README)
    write_json(out / REPORT_FILE, {**report.as_dict(), "manifest": manifest()})


_README = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-transformers, dense-retrieval, utilitune]
---
A dense retriever's encoder, tuned on what passages are worth to a language model. `training.json` says how.

    utilitune index my-data --kind dense --encoder this-folder --out my-index

It is a plain sentence-transformers folder. An index of the untuned encoder does not fit it: build it again.
"""
