"""UDCG's loss: by hand, against the measure that it bounds, and its push on distractors."""

from __future__ import annotations

import math

import pytest
import torch

from utilitune.evaluation.udcg import udcg
from utilitune.rerank.cross_encoder import new_cross_encoder
from utilitune.rerank.udcg_loss import UdcgLoss, udcg_loss

GAMMA = 1 / 3


def loss_of(scores, targets):
    row = torch.tensor([scores], dtype=torch.float64), torch.tensor([targets])
    return udcg_loss(*row, torch.ones(1, len(scores), dtype=torch.bool)).item()


def test_by_hand():
    # One pair: (1 + 1/3) log2(1 + e^0) = 4/3, over 1 pair
    assert loss_of([0.0, 0.0], [1.0, -GAMMA]) == pytest.approx(4 / 3)
    # The relevant one is ln 3 ahead: log2(1 + 1/3)
    assert loss_of([math.log(3), 0.0], [1.0, -GAMMA]) == pytest.approx(4 / 3 * math.log2(4 / 3))
    # Three candidates, 3 pairs: (.9 + .3) + (.9 + .1) + (.3 - .1), all scores equal
    assert loss_of([5.0, 5.0, 5.0], [0.9, -0.3, -0.1]) == pytest.approx((1.2 + 1.0 + 0.2) / 3)


@pytest.mark.parametrize("seed", range(5))
def test_it_bounds_what_the_order_loses_of_udcg_over_all_cut_offs(seed):
    generator = torch.Generator().manual_seed(seed)
    size = 7
    u = torch.rand(size, generator=generator).tolist()
    relevant = (torch.rand(size, generator=generator) > 0.6).tolist()
    scores = torch.randn(size, generator=generator).tolist()
    signed = [value if helps else -GAMMA * value for value, helps in zip(u, relevant, strict=True)]

    def summed(order):
        return sum(
            k * udcg([u[i] for i in order[:k]], [relevant[i] for i in order[:k]], GAMMA, raw=True)
            for k in range(1, size + 1)
        )

    best = sorted(range(size), key=lambda i: -signed[i])
    order = sorted(range(size), key=lambda i: -scores[i])
    lost = summed(best) - summed(order)
    misordered = sum(
        signed[i] - signed[j]
        for i in range(size)
        for j in range(size)
        if signed[i] > signed[j] and scores[i] < scores[j]
    )
    assert lost == pytest.approx(misordered)
    assert loss_of(scores, signed) * size * (size - 1) / 2 >= lost
    # Scores far apart in the best order leave nothing; far apart in this one, far more than is lost.
    apart = [0.0] * size
    for place, index in enumerate(best):
        apart[index] = -100.0 * place
    assert loss_of(apart, signed) == pytest.approx(0.0, abs=1e-6)


def test_a_hard_distractor_is_pushed_down_harder_than_a_weak_one():
    scores = torch.zeros(1, 3, requires_grad=True)
    targets = torch.tensor([[1.0, -GAMMA * 0.9, -GAMMA * 0.1]])
    udcg_loss(scores, targets, torch.ones(1, 3, dtype=torch.bool)).backward()
    helps, hard, weak = scores.grad[0].tolist()
    step = 0.5 / math.log(2) / 3  # sigmoid(0), nats to bits, 3 pairs
    assert hard == pytest.approx(step * ((1 + 0.3) + (0.3 - 0.1 / 3)))
    assert weak == pytest.approx(step * ((1 + 0.1 / 3) - (0.3 - 0.1 / 3)))
    assert helps == pytest.approx(-(hard + weak)) and hard > weak > 0


def test_where_every_passage_is_used_it_is_relevance():
    """u = 1 everywhere: two levels, so every pair of a relevant and another passage weighs the same."""
    scores = [0.3, -1.0, 2.0, 0.5]
    mean = sum(math.log2(1 + math.exp(-(a - b))) for a in scores[:2] for b in scores[2:]) / 4
    assert loss_of(scores, [1.0, 1.0, -GAMMA, -GAMMA]) == pytest.approx(4 / 3 * 4 / 6 * mean, rel=1e-6)


def test_padding_and_order_of_candidates_play_no_part():
    scores = torch.tensor([[0.3, -1.0, 2.0], [1.0, 0.0, 77.0]])
    targets = torch.tensor([[1.0, -0.2, 0.5], [0.4, -0.1, -99.0]])
    mask = torch.tensor([[True] * 3, [True, True, False]])
    both = udcg_loss(scores, targets, mask).item()
    alone = loss_of([0.3, -1.0, 2.0], [1.0, -0.2, 0.5]), loss_of([1.0, 0.0], [0.4, -0.1])
    assert both == pytest.approx(sum(alone) / 2, rel=1e-6)
    turned = udcg_loss(scores.flip(1), targets.flip(1), mask.flip(1)).item()
    assert turned == pytest.approx(both)


def test_one_candidate_and_equal_targets_add_nothing_and_no_nan():
    scores = torch.tensor([[3.0, 0.0], [1.0, 2.0]], requires_grad=True)
    mask = torch.tensor([[True, False], [True, True]])
    loss = udcg_loss(scores, torch.tensor([[1.0, 0.0], [0.5, 0.5]]), mask)
    loss.backward()
    assert loss.item() == 0.0 and scores.grad.abs().sum().item() == 0.0


def test_large_scores_stay_finite():
    assert loss_of([-1e4, 1e4], [1.0, -GAMMA]) == pytest.approx(4 / 3 * 2e4 / math.log(2), rel=1e-6)


def test_the_module_scores_and_compares(tiny_bert):
    model = new_cross_encoder(tiny_bert, seed=3, device="cpu")
    model.eval()
    queries, lists = ["who built the mill", "red"], [["the king", "a river", "old town"], ["blue", "red red"]]
    targets = [[1.0, -0.3, 0.2], [0.0, 0.6]]
    with torch.no_grad():
        found = UdcgLoss(model)((queries, lists), [torch.tensor(row) for row in targets]).item()
    expected = [
        loss_of(model.predict([(query, text) for text in texts]).tolist(), row)
        for query, texts, row in zip(queries, lists, targets, strict=True)
    ]
    assert found == pytest.approx(sum(expected) / 2, abs=1e-5)
