"""The listwise loss: by hand, against SciPy, against ListNet, invariants."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import entropy

from utilitune.rerank.cross_encoder import new_cross_encoder
from utilitune.rerank.listwise_kl import ListwiseKlLoss, listwise_kl


def ragged(seed: int, sizes: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (len(sizes), max(sizes))
    mask = torch.arange(shape[1])[None, :] < torch.tensor(sizes)[:, None]
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator), mask


def test_by_hand():
    # P = softmax(0, ln 3) = (1/4, 3/4); Q = (1/2, 1/2): KL = 1/4 ln(1/2) + 3/4 ln(3/2)
    scores, targets = torch.zeros(1, 2), torch.tensor([[0.0, math.log(3)]])
    expected = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    assert listwise_kl(scores, targets, torch.ones(1, 2, dtype=torch.bool)).item() == pytest.approx(expected)


def test_temperatures_by_hand():
    # targets / 0.5 = (0, ln 9) -> (1/10, 9/10); scores / 2 = (0, ln 4) -> (1/5, 4/5)
    scores, targets = torch.tensor([[0.0, 2 * math.log(4)]]), torch.tensor([[0.0, 0.5 * math.log(9)]])
    expected = 0.1 * math.log(0.1 / 0.2) + 0.9 * math.log(0.9 / 0.8)
    mask = torch.ones(1, 2, dtype=torch.bool)
    assert listwise_kl(scores, targets, mask, 0.5, 2.0).item() == pytest.approx(expected, abs=1e-7)


def test_the_mean_is_over_queries_not_over_elements():
    # A query of four equal scores and targets has KL 0 and halves the mean, no more.
    scores = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 5.0, 5.0]])
    targets = torch.tensor([[1.0, 1.0, 1.0, 1.0], [0.0, math.log(3), 9.0, 9.0]])
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    expected = (0.25 * math.log(0.5) + 0.75 * math.log(1.5)) / 2
    assert listwise_kl(scores, targets, mask).item() == pytest.approx(expected)


@pytest.mark.parametrize(("tau_t", "tau_s"), [(1.0, 1.0), (0.25, 1.0), (2.0, 0.5)])
def test_against_scipy_on_ragged_groups(tau_t, tau_s):
    sizes = [2, 5, 3, 1]
    scores, targets, mask = ragged(1, sizes)
    reference = np.mean(
        [
            entropy(
                softmax(targets[row, :size].double().numpy() / tau_t),
                softmax(scores[row, :size].double().numpy() / tau_s),
            )
            for row, size in enumerate(sizes)
        ]
    )
    assert listwise_kl(scores, targets, mask, tau_t, tau_s).item() == pytest.approx(reference, abs=1e-6)


def test_padding_has_no_effect_and_no_gradient():
    scores, targets, mask = ragged(2, [2, 4])
    wider = torch.nn.functional.pad(scores, (0, 3), value=1e4).requires_grad_()
    padded = listwise_kl(
        wider,
        torch.nn.functional.pad(targets, (0, 3), value=-77.0),
        torch.nn.functional.pad(mask, (0, 3), value=False),
    )
    assert padded.item() == pytest.approx(listwise_kl(scores, targets, mask).item(), abs=1e-7)
    padded.backward()
    gradient = wider.grad
    assert torch.isfinite(gradient).all()
    assert (gradient[~torch.nn.functional.pad(mask, (0, 3), value=False)] == 0).all()


def test_gradient_is_q_minus_p():
    scores, targets, mask = ragged(3, [3, 3])
    scores.requires_grad_()
    listwise_kl(scores, targets, mask).backward()
    expected = (scores.detach().softmax(1) - targets.softmax(1)) / 2
    assert torch.allclose(scores.grad, expected, atol=1e-6)


def test_order_of_queries_and_candidates_and_origin_do_not_matter():
    scores, targets, mask = ragged(4, [4, 4, 4])
    value = listwise_kl(scores, targets, mask).item()
    assert listwise_kl(scores[[2, 0, 1]], targets[[2, 0, 1]], mask).item() == pytest.approx(value, abs=1e-6)
    turned = [3, 1, 0, 2]
    assert listwise_kl(scores[:, turned], targets[:, turned], mask).item() == pytest.approx(value, abs=1e-6)
    assert listwise_kl(scores + 50, targets - 7, mask).item() == pytest.approx(value, abs=1e-5)


def test_zero_only_for_equal_distributions():
    scores, targets, mask = ragged(5, [4, 2])
    assert listwise_kl(targets + 3, targets, mask).item() == pytest.approx(0, abs=1e-6)
    assert listwise_kl(scores, targets, mask).item() > 0.01


def test_very_sharp_targets_stay_finite():
    scores = torch.tensor([[0.0, 100.0]], requires_grad=True)
    loss = listwise_kl(scores, torch.tensor([[1.0, 0.0]]), torch.ones(1, 2, dtype=torch.bool), 1e-3)
    loss.backward()
    assert loss.item() == pytest.approx(100.0) and torch.isfinite(scores.grad).all()


class TestModule:
    """The loss around a model, in the trainer's own input form."""

    queries = ("who built the mill", "where is the river")
    passages = (["good mill", "bad river old town"], ["blue river in the town", "king", "red bridge of the king"])
    labels = (torch.tensor([0.0, 1.0]), torch.tensor([2, 0, 1]))

    def test_equals_listnet_minus_the_entropy_of_the_targets(self, tiny_bert):
        from sentence_transformers.cross_encoder.losses import ListNetLoss

        model = new_cross_encoder(tiny_bert, seed=1, device="cpu").eval()
        labels = [row.float() for row in self.labels]
        ours = ListwiseKlLoss(model)((self.queries, self.passages), labels).item()
        theirs = ListNetLoss(model, mini_batch_size=-1)((self.queries, self.passages), labels).item()
        target_entropy = np.mean([entropy(softmax(row.numpy())) for row in labels])
        assert ours == pytest.approx(theirs - target_entropy, abs=1e-5)

    def test_batching_queries_is_the_mean_of_single_queries(self, tiny_bert):
        model = new_cross_encoder(tiny_bert, seed=1, device="cpu").eval()
        loss = ListwiseKlLoss(model, 0.5)
        single = [
            loss(([query], [passages]), [row]).item()
            for query, passages, row in zip(self.queries, self.passages, self.labels, strict=True)
        ]
        both = loss((self.queries, self.passages), self.labels).item()
        assert both == pytest.approx(np.mean(single), abs=1e-6)

    def test_wrong_shapes_are_named(self, tiny_bert):
        model = new_cross_encoder(tiny_bert, seed=1, device="cpu")
        with pytest.raises(ValueError, match="differ"):
            ListwiseKlLoss(model)((self.queries, self.passages), [self.labels[0], self.labels[0]])
        with pytest.raises(ValueError, match="> 0"):
            ListwiseKlLoss(model, 0.0)
