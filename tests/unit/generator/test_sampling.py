"""Inverse-CDF draws."""

import pytest
import torch

from utilitune.generator.sampling import Sampler, draw


def one(logits, uniform, temperature=1.0, top_p=1.0):
    values = [torch.tensor([value], dtype=torch.float64) for value in (uniform, temperature, top_p)]
    return draw(torch.tensor([logits]), *values).item()


def test_hand_worked():
    logits = torch.tensor([0.2, 0.5, 0.3]).log().tolist()
    # In vocabulary order: token 0 owns [0, .2), token 1 [.2, .7), token 2 [.7, 1).
    assert [one(logits, u) for u in (0.0, 0.19, 0.21, 0.69, 0.71, 0.999999)] == [0, 0, 1, 1, 2, 2]


def test_hand_worked_nucleus():
    logits = torch.tensor([0.2, 0.5, 0.3]).log().tolist()
    # By likelihood, within .8 of the mass: token 1 owns [0, 5/8), token 2 [5/8, 1).
    assert [one(logits, u, top_p=0.8) for u in (0.0, 0.62, 0.63, 0.999999)] == [1, 1, 2, 2]


def test_rows_with_and_without_nucleus_do_not_meet():
    logits = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    uniforms = torch.rand(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    masses = torch.tensor([1.0, 0.7] * 20, dtype=torch.float64)
    ones = torch.ones(40, dtype=torch.float64)
    alone = [draw(logits[[i]], uniforms[[i]], ones[[i]], masses[[i]]).item() for i in range(40)]
    assert draw(logits, uniforms, ones, masses).tolist() == alone


@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0, 8.0])
def test_a_nucleus_of_any_size_equals_the_plain_way(scale):
    """A flat distribution's nucleus is most of the vocabulary, a sharp one's a few tokens."""
    noise = torch.Generator().manual_seed(2)
    logits = torch.randn(30, 3000, generator=noise) * scale + torch.linspace(0, 1e-3, 3000)
    uniforms = torch.rand(30, generator=noise, dtype=torch.float64)
    got = draw(logits, uniforms, torch.ones(30, dtype=torch.float64), torch.full((30,), 0.9, dtype=torch.float64))
    for row, (weights, uniform) in enumerate(zip(logits.softmax(-1).double(), uniforms, strict=True)):
        ordered, ids = weights.sort(descending=True)
        kept = int((ordered.cumsum(0) < 0.9 * weights.sum()).sum()) + 1
        inside = ordered[:kept].cumsum(0)
        assert got[row] == ids[int((inside <= uniform * inside[-1]).sum())]


def test_impossible_tokens_are_never_drawn():
    logits = [-float("inf"), 0.0, -float("inf")]
    assert {one(logits, u) for u in (0.0, 0.5, 1 - 1e-16)} == {1}


def test_nucleus_is_the_smallest_set_with_the_mass():
    logits = torch.tensor([0.2, 0.5, 0.3]).log().tolist()
    assert {one(logits, u / 100, top_p=0.5) for u in range(100)} == {1}
    assert {one(logits, u / 100, top_p=0.6) for u in range(100)} == {1, 2}
    assert {one(logits, u / 100, top_p=0.81) for u in range(100)} == {0, 1, 2}


def test_temperature_sharpens():
    logits = torch.tensor([0.2, 0.5, 0.3]).log().tolist()
    assert {one(logits, (u + 0.5) / 100, temperature=0.01) for u in range(100)} == {1}


def test_frequencies():
    logits = torch.tensor([[0.1, 0.6, 0.3]]).log().repeat(20_000, 1)
    ones = torch.ones(20_000, dtype=torch.float64)
    uniforms = torch.rand(20_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    shares = draw(logits, uniforms, ones, ones).bincount(minlength=3) / 20_000
    assert torch.allclose(shares, torch.tensor([0.1, 0.6, 0.3]), atol=0.015)


def test_streams_belong_to_seed_prompt_and_sample():
    base = Sampler(1.0, 1.0, 0, 0).uniforms((1, 2, 3), 4)
    assert torch.equal(base, Sampler(0.5, 0.9, 0, 0).uniforms((1, 2, 3), 4))
    for other in (
        Sampler(1.0, 1.0, 1, 0).uniforms((1, 2, 3), 4),
        Sampler(1.0, 1.0, 0, 1).uniforms((1, 2, 3), 4),
        Sampler(1.0, 1.0, 0, 0).uniforms((1, 23), 4),
    ):
        assert not torch.equal(base, other)
