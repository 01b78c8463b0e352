"""The trained reranker."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.ranking import ranking
from utilitune.progress import warn
from utilitune.records import Dataset, Passage, Query, Run
from utilitune.rerank.calibration import CALIBRATION_FILE, Calibration, read_calibration
from utilitune.rerank.onnx_cross_encoder import OnnxCrossEncoder
from utilitune.rerank.pair_scores import score_pairs
from utilitune.rerank.pair_trimmer import PairTrimmer

SETTINGS_FILE = "utilitune_reranker.json"
TIE_WARNING = 0.05  # share of the reranked candidates
QUERY_SHARE = 0.5


class UtilityReranker:
    """Scores passages for a query with a cross-encoder.

    Scores are fp32 logits: unbounded, higher is better, comparable within a query. Ranking never goes through
    a sigmoid, whose strong values all round to 1.

    ``counts`` runs on over calls: ``pairs``, ``truncated_pairs``, ``truncated_queries``, ``truncated_passages``,
    ``non_finite`` scores, ``tied`` candidates (share their score with another one of the query), ``reranked``
    candidates, and with a least score ``dropped`` passages and queries that were left none, ``abstained``.
    """

    def __init__(
        self,
        model: Any,
        *,
        query_share: float = QUERY_SHARE,
        batch_size: int = 32,
        calibration: Calibration | None = None,
    ) -> None:
        """Wrap a ``CrossEncoder`` with one output, or an exported one; ``load`` and ``untrained`` are the ways in."""
        self.model = model
        self.query_share = query_share
        self.batch_size = batch_size
        self.calibration = calibration
        self._trimmer = PairTrimmer(model.tokenizer, model.max_seq_length, query_share)
        self._ranking_counts: Counter[str] = Counter(non_finite=0, tied=0, reranked=0, dropped=0, abstained=0)

    @classmethod
    def load(
        cls, folder: Path | str, *, device: str = "auto", batch_size: int = 32, backend: str = "torch"
    ) -> UtilityReranker:
        """Open a folder that ``train_reranker`` wrote, or any ``CrossEncoder`` with one output.

        Args:
            folder: Folder, ``packaged:NAME`` or Hub id.
            device: ``auto`` or a torch device.
            batch_size: Pairs a forward pass.
            backend: ``torch``; ``onnx`` (fp32) or ``onnx-int8`` for a folder that ``export_reranker`` added to.

        Returns:
            The reranker.

        Raises:
            ConfigError: For an unknown backend, or if the extra ``onnx`` is missing.
            DataError: If the folder holds no reranker, or no such graph of its weights.
        """
        from utilitune.rerank.backends import open_backend

        settings = Path(folder) / SETTINGS_FILE
        share = QUERY_SHARE
        if settings.exists():
            share = float(json.loads(settings.read_text(encoding="utf-8"))["query_share"])
        model = open_backend(str(folder), backend, device)
        return cls(model, query_share=share, batch_size=batch_size, calibration=read_calibration(folder))

    @classmethod
    def untrained(
        cls,
        base: str,
        *,
        seed: int = 13,
        max_length: int | None = None,
        device: str = "auto",
        batch_size: int = 32,
        head: str = "classification",
    ) -> UtilityReranker:
        """Put a new head on ``base``: where training starts; noise unless the base is a reranker, or by similarity.

        Args:
            base: Encoder, decoder or reranker.
            seed: Of the new head.
            max_length: Upper limit of tokens a pair.
            device: ``auto`` or a torch device.
            batch_size: Pairs a forward pass.
            head: ``classification`` or ``similarity``.

        Returns:
            The reranker.
        """
        from utilitune.rerank.cross_encoder import new_cross_encoder

        model = new_cross_encoder(base, seed=seed, max_length=max_length, device=device, head=head)
        return cls(model, batch_size=batch_size)

    def save(self, folder: Path | str) -> None:
        """Write a plain ``CrossEncoder`` folder: safetensors, identity activation, our settings.

        Args:
            folder: Made if need be.

        Raises:
            ConfigError: If the model is an exported graph, which has no weights to write.
        """
        if isinstance(self.model, OnnxCrossEncoder):
            raise ConfigError("an exported reranker is not saved again; copy its folder, or load it with torch")
        save_reranker(self.model, Path(folder), query_share=self.query_share)
        if self.calibration is not None:
            self.calibration.save(folder)

    @property
    def max_length(self) -> int:
        """Tokens a pair, special tokens included."""
        return self._trimmer.limit

    @property
    def counts(self) -> dict[str, int]:
        """Running counts, by kind."""
        return {**self._trimmer.counts, **self._ranking_counts}

    def score(self, query: str, passages: Sequence[Passage | str]) -> list[float]:
        """Score passages for one query.

        Args:
            query: The question, as in training.
            passages: Passages, or their full texts.

        Returns:
            One logit a passage, in order. NaN or infinite if the model gives that.
        """
        return self.score_pairs([(query, _text(passage)) for passage in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Score any (query text, passage text) pairs; the same numbers as ``score``, in fewer batches.

        Args:
            pairs: Pairs.

        Returns:
            One logit a pair, in order.
        """
        scores = score_pairs(self.model, self._trimmer, pairs, batch_size=self.batch_size)
        self._ranking_counts["non_finite"] += sum(not math.isfinite(score) for score in scores)
        return scores

    def rank(
        self,
        query: str,
        passages: Sequence[Passage],
        k: int | None = None,
        *,
        min_score: float | None = None,
        calibrated: bool = False,
    ) -> list[tuple[Passage, float]]:
        """Order passages for one query.

        Args:
            query: The question.
            passages: Candidates. Equal scores rank by id, descending, as in every measure.
            k: Keep the first k; all when ``None``.
            min_score: Leave out passages of a smaller logit, and those whose logit is not finite; the list may
                come out empty: no passage helps. ``calibration.threshold.score`` is one chosen on labels,
                ``calibration.score(0.5)`` that of a probability.
            calibrated: Return the probability that a passage helps instead of its logit; the order is the same.

        Returns:
            ``(passage, logit)``, best first, scores that are not finite last.

        Raises:
            ConfigError: If ``calibrated`` is asked of a reranker without calibration.
        """
        if calibrated and self.calibration is None:
            raise ConfigError("this reranker is not calibrated; run `utilitune calibrate` on held-out labels first")
        scores = self.score(query, passages)
        order = self._kept(self._order(scores, [passage.id for passage in passages]), scores, min_score)[:k]
        shown = self.calibration.probability if calibrated and self.calibration is not None else float
        return [(passages[index], shown(scores[index])) for index in order]

    def rerank(
        self,
        run: Run,
        dataset: Dataset | None = None,
        *,
        queries: Sequence[Query] | Mapping[str, str] | None = None,
        passages: Mapping[str, Passage] | None = None,
        depth: int = 20,
        k: int | None = None,
        min_score: float | None = None,
    ) -> Run:
        """Reorder the first ``depth`` passages of every query of a run.

        The candidates are the run's: nothing is added. Its order, and that of equal logits, is the one that every
        measure reads: score descending, then id descending. Passages below ``depth`` follow in their order, and
        those whose logit is not finite come last of the reranked ones; both get made-up scores below the
        logits, so that sorting the run by score gives the same order.

        Args:
            run: First stage.
            dataset: Holds queries and passages.
            queries: Instead of, or over, the data set's: queries, or ``{query id: text}`` (rewritten
                questions).
            passages: Instead of the data set's corpus, by id.
            depth: How many to reorder, >= 0.
            k: Keep the first k of a query; all when ``None``.
            min_score: As in ``rank``: leave out passages of a smaller logit, and with them those below
                ``depth``, of which nothing is known. A query may keep none: its list is empty.

        Returns:
            The same passages a query, in the new order; fewer with ``k`` or ``min_score``.

        Raises:
            DataError: If the text of a query or passage is missing, or ``depth`` is negative.
        """
        if depth < 0:
            raise DataError(f"depth is {depth}; it must be >= 0")
        texts = _query_texts(dataset, queries)
        corpus = passages if passages is not None else (dataset.passages() if dataset is not None else {})
        orders = {query_id: [pid for pid, _ in ranking(scored)] for query_id, scored in run.items()}
        heads = {query_id: order[:depth] for query_id, order in orders.items()}
        _check_texts(heads, texts, corpus)
        pairs = [(texts[query_id], _text(corpus[pid])) for query_id, head in heads.items() for pid in head]
        flat = iter(self.score_pairs(pairs))
        tied_before = self._ranking_counts["tied"]
        reranked = Run()
        for query_id, order in orders.items():
            head = heads[query_id]
            scores = [next(flat) for _ in head]
            reranked[query_id] = self._merge(head, scores, order[depth:], min_score)[:k]
        self._ranking_counts["reranked"] += len(pairs)
        tied = self._ranking_counts["tied"] - tied_before
        if pairs and tied / len(pairs) > TIE_WARNING:
            warn(f"{tied} of {len(pairs)} reranked candidates share their score with another of their query")
        return reranked

    def _merge(
        self, head: Sequence[str], scores: Sequence[float], tail: Sequence[str], min_score: float | None
    ) -> list[tuple[str, float]]:
        order = self._kept(self._order(scores, head), scores, min_score)
        ranked = [(head[index], scores[index]) for index in order if math.isfinite(scores[index])]
        if min_score is not None:
            self._ranking_counts["dropped"] += len(tail)
            return ranked
        rest = [head[index] for index in order if not math.isfinite(scores[index])] + list(tail)
        floor = ranked[-1][1] if ranked else 0.0
        return ranked + [(passage_id, floor - place) for place, passage_id in enumerate(rest, start=1)]

    def _kept(self, order: list[int], scores: Sequence[float], min_score: float | None) -> list[int]:
        """Return the indices whose score is large enough; count the others, and a list that comes out empty."""
        if min_score is None:
            return order
        kept = [index for index in order if math.isfinite(scores[index]) and scores[index] >= min_score]
        self._ranking_counts["dropped"] += len(order) - len(kept)
        self._ranking_counts["abstained"] += bool(order) and not kept
        return kept

    def _order(self, scores: Sequence[float], ids: Sequence[str]) -> list[int]:
        """Return indices best first, equal scores by id descending, not finite last in the given order; count ties."""
        finite = [index for index, score in enumerate(scores) if math.isfinite(score)]
        shared = Counter(scores[index] for index in finite)
        self._ranking_counts["tied"] += sum(count for count in shared.values() if count > 1)
        finite.sort(key=lambda index: (scores[index], ids[index]), reverse=True)
        return finite + [index for index, score in enumerate(scores) if not math.isfinite(score)]


def save_reranker(model: Any, folder: Path, *, query_share: float) -> None:
    """Write a ``CrossEncoder`` folder: safetensors, tokenizer, identity activation, settings, README.

    Args:
        model: The ``CrossEncoder``.
        folder: Made if need be.
        query_share: Share of the room that a long query keeps.
    """
    from torch import nn

    from utilitune.records import write_json, write_text
    from utilitune.rerank.cross_encoder import quiet_loading

    folder.mkdir(parents=True, exist_ok=True)
    # Identity, not the default sigmoid: logits neither saturate nor round into ties (fp32 sigmoid(17) is
    # 1.0).
    model.activation_fn = nn.Identity()
    with quiet_loading():
        model.save_pretrained(str(folder), create_model_card=False, safe_serialization=True)
    settings = {
        "query_share": query_share,
        "max_length": model.max_seq_length,
        "activation": "identity",
        "scores": "fp32 logits",
    }
    write_json(folder / SETTINGS_FILE, settings)
    # Of other weights: it would say nothing about these.
    (folder / CALIBRATION_FILE).unlink(missing_ok=True)
    write_text(folder / "README.md", getattr(model, "readme", _README))


_README = """---
library_name: sentence-transformers
pipeline_tag: text-ranking
tags: [cross-encoder, reranker, utilitune]
---
A reranker trained on what passages are worth to a language model. `training.json` says how.

    from sentence_transformers import CrossEncoder
    CrossEncoder("this folder").rank("question", ["passage", "another"])

Scores are logits (identity activation); put a sigmoid on them for display, not for ranking.
"""


def _text(passage: Passage | str) -> str:
    return passage if isinstance(passage, str) else passage.full_text


def _query_texts(dataset: Dataset | None, queries: Sequence[Query] | Mapping[str, str] | None) -> dict[str, str]:
    texts = {query.id: query.text for query in dataset.queries} if dataset is not None else {}
    if isinstance(queries, Mapping):
        return {**texts, **queries}
    return {**texts, **{query.id: query.text for query in queries or ()}}


def _check_texts(heads: Mapping[str, Sequence[str]], texts: Mapping[str, str], corpus: Mapping[str, Passage]) -> None:
    unknown = [query_id for query_id, head in heads.items() if head and query_id not in texts]
    if unknown:
        raise DataError(f"{len(unknown)} queries of the run have no text (first: {unknown[0]!r}); pass their data set")
    gone = sorted({passage_id for head in heads.values() for passage_id in head if passage_id not in corpus})
    if gone:
        raise DataError(f"{len(gone)} passages of the run are not in the corpus (first: {gone[0]!r}); pass its corpus")
