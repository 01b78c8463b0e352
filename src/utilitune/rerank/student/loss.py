"""The student's loss: the teacher's over a query's candidates, and one that keeps other queries' passages away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from sentence_transformers import util
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.sentence_transformer.losses import DistillKLDivLoss, MarginMSELoss
from torch import Tensor, nn

Key = tuple[int, ...]


def in_batch_loss(
    queries: Tensor, passages: Sequence[Tensor], keys: Sequence[Sequence[Key]], temperature: float
) -> tuple[Tensor, int, int]:
    """Return InfoNCE of each query's best passage against the passages of the other queries (arXiv 1807.03748).

    ``-ln(e^{s(q, best)/tau} / (e^{s(q, best)/tau} + sum_n e^{s(q, n)/tau}))``, s the cosine, mean over queries. A
    passage that is the same text as any candidate of the query is no negative of it: its worth is known, and it may
    be the best one.

    Args:
        queries: Shape ``(queries, dimension)``.
        passages: One tensor a candidate place, each ``(queries, dimension)``, the best passage first.
        keys: For each place and query what tells texts apart.
        temperature: tau > 0.

    Returns:
        ``(loss, negatives, kept out)``; the loss is 0 where no query has a negative.
    """
    count, places = len(queries), len(passages)
    flat = [key for place in keys for key in place]
    owner = list(range(count)) * places
    own = [{place[row] for place in keys} for row in range(count)]
    foreign = torch.tensor([[other != row for other in owner] for row in range(count)])
    known = torch.tensor([[key in own[row] for key in flat] for row in range(count)])
    shown = foreign & ~known
    # The best passages are the first place of the flat list.
    used = shown.clone()
    used[torch.arange(count), torch.arange(count)] = True
    scores = util.cos_sim(queries, torch.cat(list(passages))).float() / temperature
    scores = scores.masked_fill(~used.to(scores.device), float("-inf"))
    loss = nn.functional.cross_entropy(scores, torch.arange(count, device=scores.device))
    return loss, int(shown.sum()), int((foreign & known).sum())


class StudentLoss(nn.Module):
    """For ``SentenceTransformerTrainer``.

    | inputs | labels |
    |---|---|
    | (query, best passage, passage 2, …, passage n) | [target 1, …, target n] |

    Attributes:
        counts: ``in_batch_negatives`` shown so far, and ``in_batch_kept_out``.
    """

    counts: Counter[str]

    def __init__(
        self,
        model: Any,
        loss: str,
        *,
        target_temperature: float,
        score_temperature: float,
        in_batch: float,
        in_batch_temperature: float = 0.05,
    ) -> None:
        """Wrap a ``SentenceTransformer``.

        Args:
            model: The student.
            loss: A name in ``STUDENT_LOSSES``.
            target_temperature: Of the targets in ``listwise-kl``, > 0.
            score_temperature: What cosines are divided by, > 0.
            in_batch: Weight of the in-batch loss, >= 0.
            in_batch_temperature: What it divides cosines by, > 0.
        """
        super().__init__()
        self.model = model
        self.score_temperature = score_temperature
        self.in_batch = in_batch
        self.in_batch_temperature = in_batch_temperature
        self.counts = Counter(in_batch_negatives=0, in_batch_kept_out=0)
        self.main = MAIN[loss](model, target_temperature, self._scaled_cosine)

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> dict[str, Tensor]:
        """Encode a batch and compare.

        Args:
            sentence_features: Tokens of the query and of each candidate place.
            labels: Targets, shape ``(queries, candidates)``.

        Returns:
            The parts of the loss, by name; their sum is what is trained on.
        """
        features = list(sentence_features)
        keys = [_keys(place) for place in features[1:]] if self.in_batch else []
        embeddings = embed_columns(self.model, features)
        parts = {"own": self.main.compute_loss_from_embeddings(embeddings, labels)}
        if self.in_batch:
            loss, negatives, kept_out = in_batch_loss(embeddings[0], embeddings[1:], keys, self.in_batch_temperature)
            self.counts.update(in_batch_negatives=negatives, in_batch_kept_out=kept_out)
            parts["in_batch"] = self.in_batch * loss
        return parts

    def _scaled_cosine(self, left: Tensor, right: Tensor) -> Tensor:
        # Divided here and not by the loss's own temperature, by whose square that multiplies its result.
        cosines: Tensor = util.pairwise_cos_sim(left, right)
        return cosines / self.score_temperature


def _keys(features: dict[str, Tensor]) -> list[Key]:
    """Return what the encoder reads of each text: texts with the same tokens are the same to it."""
    rows = zip(features["input_ids"].tolist(), features["attention_mask"].tolist(), strict=True)
    return [tuple(token for token, real in zip(ids, mask, strict=True) if real) for ids, mask in rows]


def _listwise_kl(model: Any, target_temperature: float, similarity: Callable[[Tensor, Tensor], Tensor]) -> Any:
    return DistillKLDivLoss(
        model, similarity_fct=similarity, student_temperature=1.0, teacher_temperature=target_temperature
    )


def _margin_mse(model: Any, target_temperature: float, similarity: Callable[[Tensor, Tensor], Tensor]) -> Any:
    del target_temperature
    return MarginMSELoss(model, similarity_fct=similarity)


MAIN: dict[str, Callable[[Any, float, Callable[[Tensor, Tensor], Tensor]], Any]] = {
    "listwise-kl": _listwise_kl,
    "margin-mse": _margin_mse,
}
