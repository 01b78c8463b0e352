"""Held-out queries against a pool of passages: arithmetic by hand, ties, collapse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from utilitune.rerank import Group
from utilitune.rerank.dev_measure import utility_ndcg
from utilitune.rerank.rescale import rescale
from utilitune.rerank.student.pool import Pool


def group(name, passages, utilities):
    ids = tuple(f"{name}-{place}" for place in range(len(passages)))
    return Group(name, name, ids, tuple(passages), tuple(utilities), tuple(utilities), name)


DEV = [group("q", ["a", "b", "c"], [0.0, 4.0, 2.0]), group("r", ["c", "d"], [1.0, 0.0])]


def unit(*angles):
    return np.array([[math.cos(angle), math.sin(angle)] for angle in angles], np.float32)


def test_pool_holds_each_text_once_and_fills_up_from_training():
    pool = Pool.of(DEV, [group("t", ["a", "e", "f"], [0, 1, 2]), group("u", ["g", "h"], [0, 1])], limit=6)
    assert pool.texts == ["a", "b", "c", "d", "e", "f"]
    assert pool.rows == [[0, 1, 2], [2, 3]]
    assert len(Pool.of(DEV, [], limit=1).texts) == 4


def test_measure_by_hand():
    # q at 0: order d c b a; gains a 0, b 1, c .5, d 0 (not labelled). r at 90 degrees: order a b c d; gains c 1, d 0.
    pool = Pool.of(DEV, [], limit=10)
    found = pool.measure(unit(0.0, math.pi / 2), unit(1.2, 0.9, 0.6, 0.3))
    gained = 0.5 / math.log2(3) + 1 / math.log2(4)
    ideal = 1 + 0.5 / math.log2(3)
    assert found.ndcg == pytest.approx((gained / ideal + 1 / math.log2(4)) / 2)
    assert found.mrr == pytest.approx((1 / 3 + 1 / 3) / 2)
    assert found.recall == 1.0 and found.queries == 2 and found.pool == 4 and found.non_finite == 0
    spreads = [np.std(np.cos([1.2, 0.9, 0.6])), np.std(np.sin([0.6, 0.3]))]
    assert found.spread == pytest.approx(np.mean(spreads), abs=1e-6)


def test_large_pools_give_what_the_whole_ranking_gives():
    generator = np.random.default_rng(5)
    dev = [group(f"q{i}", [f"p{i}-{j}" for j in range(5)], generator.normal(size=5)) for i in range(6)]
    train = [group(f"t{i}", [f"x{i}-{j}" for j in range(4)], generator.normal(size=4)) for i in range(20)]
    pool = Pool.of(dev, train, limit=100)
    queries, passages = (generator.normal(size=(n, 3)).astype(np.float32) for n in (6, 100))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    passages /= np.linalg.norm(passages, axis=1, keepdims=True)
    expected = []
    for row, one, own in zip(queries, dev, pool.rows, strict=True):
        gains = np.zeros(100)
        gains[own] = rescale(one.utilities, "min-max")
        expected.append(utility_ndcg(np.round(passages.astype(float) @ row.astype(float), 6).tolist(), gains.tolist()))
    assert pool.measure(queries, passages).ndcg == pytest.approx(np.mean(expected))


def test_one_vector_for_all_gets_what_chance_gets():
    pool = Pool.of(DEV, [group("t", [f"x{i}" for i in range(36)], range(36))], limit=40)
    found = pool.measure(unit(0.0, 0.0), unit(*[0.0] * 40))
    assert found.spread == 0.0 and found.recall == 0.0 and found.mrr == 0.0  # the mean rank of a tie is 20.5
    assert found.ndcg < 0.25


def test_numbers_that_are_not_finite_rank_last_and_are_counted():
    pool = Pool.of(DEV, [], limit=10)
    passages = unit(1.2, 0.9, 0.6, 0.3)
    passages[1] = np.nan
    found = pool.measure(unit(0.0, math.pi / 2), passages)
    assert found.non_finite == 2
    assert math.isfinite(found.ndcg) and math.isfinite(found.spread)
    assert found.mrr == pytest.approx((1 / 4 + 1 / 2) / 2)  # b falls to the end for both
