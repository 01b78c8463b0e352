"""UDCG as a loss: every pair of passages costs what UDCG loses when the two stand in the wrong order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from utilitune.rerank.listwise_loss import ListwiseLoss

_LN2 = 0.6931471805599453


def udcg_loss(scores: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over queries of a convex bound on what their order loses of UDCG.

    Over the ``n`` candidates of a query, with signed utilities ``v`` and scores ``s``:

        L = 2/(n(n-1)) sum_{v_i > v_j} (v_i - v_j) log2(1 + exp(-(s_i - s_j)))

    ``v = u`` for a relevant passage and ``v = -gamma u`` for a distractor, the summands of UDCG (arXiv
    2510.21440), with ``u = 1 - P(abstain | question, passage)``. Above a passage of utility ``u_i``, a hard
    distractor (u near 1) costs ``u_i + gamma``, a weak one ``u_i``: the push on a distractor grows linearly
    with its u, and among distractors the weak ones go first. Labels of relevance weigh all of them alike.

    Why it is UDCG's: two passages in the wrong order cost exactly ``v_i - v_j``, summed over the cut-offs k:

        sum_{k=1..n} k (rawUDCG@k of the best order - rawUDCG@k) = sum_{v_i > v_j, s_i < s_j} (v_i - v_j)

    and ``log2(1 + exp(-x)) >= 1`` for ``x <= 0``, so that ``n(n-1)/2 L`` bounds it (pairwise bounds on a
    measure: LambdaLoss, Wang et al., CIKM 2018; with equal weights this is RankNet, Burges et al. 2005). Unlike
    nDCG, UDCG has no discount, so the weights do not depend on the scores. Where every u is 1, a generator
    that never abstains, what is left is relevance.

    Args:
        scores: Shape ``(queries, candidates)``, logits.
        targets: Same shape, signed utilities in [-1, 1].
        mask: Same shape, bool; ``False`` marks padding.

    Returns:
        A scalar >= 0; a query with one candidate or equal targets adds 0.
    """
    gaps = targets.float()[:, :, None] - targets.float()[:, None, :]
    both = mask[:, :, None] & mask[:, None, :]
    weights = torch.where(both, gaps.clamp(min=0.0), 0.0)
    margins = scores.float()[:, :, None] - scores.float()[:, None, :]
    lost = (weights * functional.softplus(-margins)).sum(dim=(1, 2)) / _LN2
    sizes = mask.sum(dim=1).float()
    return (lost / (sizes * (sizes - 1) / 2).clamp(min=1.0)).mean()


class UdcgLoss(ListwiseLoss):
    """The same for ``CrossEncoderTrainer``; inputs and labels as in ``ListwiseLoss``."""

    def value(self, scores: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """Return the loss; shapes as in ``udcg_loss``."""
        return udcg_loss(scores, targets, mask)

    def get_config_dict(self) -> dict[str, Any]:
        """Return nothing: all that can be set (gamma) is in the targets."""
        return {}
