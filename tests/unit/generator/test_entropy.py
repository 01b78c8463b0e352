"""Exact entropies: hand-worked values and hard cases."""

import math

import pytest
import torch

from utilitune.generator.entropy import MAX_LOGITS, feature_stats, logit_stats


def test_hand_worked():
    logits = torch.tensor([[0.5, 0.3, 0.2, 0.0]]).log()
    logprobs, entropies = logit_stats(logits, torch.tensor([1]))
    assert logprobs.item() == pytest.approx(math.log(0.3), abs=1e-6)
    assert entropies.item() == pytest.approx(-sum(p * math.log(p) for p in (0.5, 0.3, 0.2)), abs=1e-6)


def test_flat_is_not_confident():
    """B16, exactly: fifty thousand equal tokens; a top-20 sum would say 0.004."""
    logprobs, entropies = logit_stats(torch.zeros(1, 50_000), torch.tensor([7]))
    assert entropies.item() == pytest.approx(math.log(50_000), abs=1e-5)
    assert logprobs.item() == pytest.approx(-math.log(50_000), abs=1e-5)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("offset", [0.0, 80.0])
def test_equals_float64(scale, offset):
    torch.manual_seed(0)
    logits = torch.randn(20, 5000) * scale + offset
    targets = torch.randint(5000, (20,))
    logprobs, entropies = logit_stats(logits, targets)
    rows = logits.double().log_softmax(-1)
    assert torch.allclose(logprobs.double(), rows.gather(1, targets[:, None])[:, 0], rtol=1e-6, atol=1e-5)
    assert torch.allclose(entropies.double(), torch.special.entr(rows.exp()).sum(-1), atol=1e-5)


def test_masked_vocabulary_is_no_nan():
    """B16: impossible tokens weigh nothing, 0 times infinity is no NaN."""
    logits = torch.tensor([[0.0, -math.inf, 0.0]])
    logprobs, entropies = logit_stats(logits, torch.tensor([1]))
    assert entropies.item() == pytest.approx(math.log(2), abs=1e-6)
    assert logprobs.item() == -math.inf


def test_certain_is_zero_not_negative():
    logits = torch.tensor([[100.0, 0.0, 0.0]])
    assert 0.0 <= logit_stats(logits, torch.tensor([0]))[1].item() < 1e-30


def test_slices_change_nothing_and_stay_small():
    torch.manual_seed(0)
    weight = torch.randn(3000, 8)
    features, targets = torch.randn(50, 8), torch.randint(3000, (50,))
    seen = []

    def head(part):
        seen.append(len(part))
        return part @ weight.T

    whole = logit_stats(features @ weight.T, targets)
    # A pretended vocabulary makes the slices ten rows.
    sliced = feature_stats(head, features, targets, MAX_LOGITS // 10)
    assert seen == [10] * 5
    for one, other in zip(whole, sliced, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
