"""Inverse-CDF draws."""

import torch

from utilitune.generator.sampling import Sampler, draw


def one(logits, uniform, temperature=1.0, top_p=1.0):
    values = [torch.tensor([value], dtype=torch.float64) for value in (uniform, temperature, top_p)]
    return draw(torch.tensor([logits]), *values).item()


def test_hand_worked():
    logits = torch.tensor([0.2, 0.5, 0.3]).log().tolist()
    # In order of likelihood: token 1 owns [0, .5), token 2 [.5, .8), token 0 [.8, 1).
    assert [one(logits, u) for u in (0.0, 0.49, 0.51, 0.79, 0.81, 0.999999)] == [1, 1, 2, 2, 0, 0]


def test_nucleus_is_the_smallest_set_with_the_mass():
    logits = torch.tensor([0.2, 0.5, 0.3]).log().tolist()
    assert {one(logits, u / 100, top_p=0.5) for u in range(100)} == {1}
    assert {one(logits, u / 100, top_p=0.6) for u in range(100)} == {1, 2}
    assert {one(logits, u / 100, top_p=0.81) for u in range(100)} == {0, 1, 2}


def test_temperature_sharpens():
    logits = torch.tensor([0.2, 0.5, 0.3]).log().tolist()
    assert {one(logits, u / 100, temperature=0.01) for u in range(100)} == {1}


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
