"""The held-out measure inside ``SentenceTransformerTrainer``. Importing this loads torch."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentence_transformers.base.evaluation import BaseEvaluator

from utilitune.progress import say
from utilitune.rerank.student.pool import Pool, PoolMeasure

CHOICE = "choice"
COLLAPSED = -1.0


class PoolEvaluator(BaseEvaluator):  # type: ignore[misc]
    """Ranks held-out queries against a pool; ``choice`` is what the trainer keeps the best epoch by.

    Attributes:
        seconds: Wall clock spent measuring so far.
    """

    seconds: float

    def __init__(self, pool: Pool, min_spread: float, batch_size: int = 32) -> None:
        """Keep the pool, and the spread of cosines below which an encoder has collapsed."""
        super().__init__()
        self.pool = pool
        self.min_spread = min_spread
        self.batch_size = batch_size
        self.primary_metric = CHOICE
        self.seconds = 0.0

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Measure an encoder.

        Args:
            model: The ``SentenceTransformer``.
            output_path: Not used.
            epoch: Passes done.
            steps: Not used.

        Returns:
            The fields of ``PoolMeasure``, and ``choice``: nDCG@10, or -1 for an encoder that has collapsed.
        """
        del output_path, steps
        began = time.monotonic()
        found = measure_encoder(model, self.pool, self.batch_size)
        sound = found.non_finite == 0 and found.spread >= self.min_spread
        say(
            f"retriever training: epoch {max(round(epoch), 0)}, held-out nDCG@10 {found.ndcg:.3f}, recall@10 "
            f"{found.recall:.3f}, MRR@10 {found.mrr:.3f} among {found.pool} passages" + ("" if sound else ", collapsed")
        )
        self.seconds += time.monotonic() - began
        return {**found.as_dict(), CHOICE: found.ndcg if sound else COLLAPSED}


def measure_encoder(model: Any, pool: Pool, batch_size: int = 32) -> PoolMeasure:
    """Encode a pool as retrieval does, and measure.

    Args:
        model: The ``SentenceTransformer``.
        pool: Held-out groups and passages.
        batch_size: Texts a forward pass.

    Returns:
        The measure.
    """
    queries = _vectors(model.encode_query, [group.query for group in pool.groups], batch_size)
    return pool.measure(queries, _vectors(model.encode_document, list(pool.texts), batch_size))


def _vectors(encode: Any, texts: list[str], batch_size: int) -> NDArray[np.float32]:
    vectors: NDArray[np.float32] = encode(
        texts, batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True, normalize_embeddings=True
    )
    return vectors
