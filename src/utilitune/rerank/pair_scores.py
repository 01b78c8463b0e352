"""Raw scores of (query, passage) pairs: the one way in which the dev check and the reranker predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from utilitune.progress import progress
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
    """Score pairs with a ``CrossEncoder``.

    Repeated pairs are scored once; batches hold pairs of like length.

    Args:
        model: A ``CrossEncoder`` with one output.
        trimmer: Fits pairs into the model.
        pairs: (query, passage).
        batch_size: Pairs a forward pass.
        what: Title of the progress bar.

    Returns:
        One fp32 logit a pair (no activation), in order; may hold NaN or infinities if the model does.
    """
    from torch import nn

    fitted = trimmer.trim(pairs)
    distinct = sorted(dict.fromkeys(fitted), key=lambda pair: len(pair[0]) + len(pair[1]), reverse=True)
    known: dict[tuple[str, str], float] = {}
    step = batch_size * _CHUNK
    with progress(what, len(distinct), "pairs") as bar:
        for start in range(0, len(distinct), step):
            chunk = distinct[start : start + step]
            logits = model.predict(chunk, batch_size=batch_size, activation_fn=nn.Identity(), show_progress_bar=False)
            known.update(zip(chunk, np.asarray(logits, np.float32).reshape(-1).tolist(), strict=True))
            bar.advance(len(chunk))
    return [known[pair] for pair in fitted]
