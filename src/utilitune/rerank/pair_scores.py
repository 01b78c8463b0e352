"""Raw scores of (query, passage) pairs: the one way in which the dev check and the reranker predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from utilitune.progress import progress
from utilitune.rerank.onnx_cross_encoder import OnnxCrossEncoder
from utilitune.rerank.pair_trimmer import PairTrimmer

_CHUNK = 16  # batches between two moves of the bar


def score_pairs(
    model: Any,
    trimmer: PairTrimmer,
    pairs: Sequence[tuple[str, str]],
    *,
    batch_size: int = 32,
    what: str = "rerank",
) -> list[float]:
    """Score pairs with a model.

    Repeated pairs are scored once; batches hold pairs of like length.

    Args:
        model: A ``CrossEncoder`` with one output, or an ``OnnxCrossEncoder``.
        trimmer: Fits pairs into the model.
        pairs: (query, passage).
        batch_size: Pairs a forward pass.
        what: Title of the progress bar.

    Returns:
        One fp32 logit a pair (no activation), in order; may hold NaN or infinities if the model does.
    """
    fitted = trimmer.trim(pairs)
    distinct = sorted(dict.fromkeys(fitted), key=lambda pair: len(pair[0]) + len(pair[1]), reverse=True)
    known: dict[tuple[str, str], float] = {}
    step = batch_size * _CHUNK
    with progress(what, len(distinct), "pairs") as bar:
        for start in range(0, len(distinct), step):
            chunk = distinct[start : start + step]
            known.update(zip(chunk, _logits(model, chunk, batch_size).tolist(), strict=True))
            bar.advance(len(chunk))
    return [known[pair] for pair in fitted]


def _logits(model: Any, pairs: Sequence[tuple[str, str]], batch_size: int) -> NDArray[np.float32]:
    if isinstance(model, OnnxCrossEncoder):
        return model.logits(pairs, batch_size)
    from torch import nn

    found = model.predict(pairs, batch_size=batch_size, activation_fn=nn.Identity(), show_progress_bar=False)
    return np.asarray(found, np.float32).reshape(-1)
