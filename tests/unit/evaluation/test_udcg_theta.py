"""UDCGθ: recovers known weights, saves and loads."""

import json
import math

import numpy as np
import pytest

from utilitune.errors import DataError
from utilitune.evaluation import udcg_theta
from utilitune.evaluation.udcg_theta import features
from utilitune.records.hashes import file_hash


def world(n=4000, k=3, seed=0):
    rng = np.random.default_rng(seed)
    utilities = rng.random((n, k))
    relevant = rng.random((n, k)) < 0.5
    alpha, beta, bias = np.array([3.0, 2.0, 1.0]), np.array([1.5, 1.0, 0.5]), -1.0
    logit = bias + (utilities * relevant) @ alpha + (-utilities * ~relevant) @ beta
    correct = rng.random(n) < 1 / (1 + np.exp(-logit))
    return utilities.tolist(), relevant.tolist(), correct.tolist(), alpha, beta, bias


def test_features_by_hand():
    assert features([0.9, 0.5, None, 0.2], [1, 0, 1, None], 5) == [0.9, 0, 0, 0, 0, 0, -0.5, 0, 0, 0]


def test_fit_recovers_the_weights_that_made_the_data():
    utilities, relevant, correct, alpha, beta, bias = world()
    fitted = udcg_theta.fit(utilities, relevant, correct, strength=1e6, generator="tiny")
    assert (fitted.k, fitted.n, fitted.generator) == (3, 4000, "tiny")
    assert fitted.relevant_weights == pytest.approx(alpha.tolist(), abs=0.45)
    assert fitted.irrelevant_weights == pytest.approx(beta.tolist(), abs=0.45)
    assert fitted.bias == pytest.approx(bias, abs=0.35)


def test_call_is_the_formula_and_calibrated():
    utilities, relevant, correct, *_ = world()
    fitted = udcg_theta.fit(utilities, relevant, correct)
    u, r = [0.9, 0.4, 0.7], [True, False, True]
    by_hand = (
        fitted.bias
        + fitted.relevant_weights[0] * 0.9
        - fitted.irrelevant_weights[1] * 0.4
        + fitted.relevant_weights[2] * 0.7
    )
    assert fitted(u, r) == pytest.approx(1 / (1 + math.exp(-by_hand)))
    mean = np.mean([fitted(u, r) for u, r in zip(utilities, relevant, strict=True)])
    assert mean == pytest.approx(np.mean(correct), abs=1e-3)
    assert fitted([], []) == 0.0
    assert 0 < fitted([0.5], [1]) < 1


def test_round_trip(tmp_path):
    utilities, relevant, correct, *_ = world(200)
    fitted = udcg_theta.fit(utilities, relevant, correct)
    fitted.save(tmp_path / "theta.json")
    assert udcg_theta.load(tmp_path / "theta.json") == fitted
    assert json.loads((tmp_path / "theta.json").read_text())["measure"] == "UDCGtheta"
    assert fitted.sha256 == file_hash(tmp_path / "theta.json")
    assert udcg_theta.fit(*world(201)[:3]).sha256 != fitted.sha256


def test_refusals(tmp_path):
    with pytest.raises(DataError, match="all 2 answers are right"):
        udcg_theta.fit([[0.1], [0.2]], [[1], [0]], [1, 1])
    with pytest.raises(DataError, match="one of each"):
        udcg_theta.fit([[0.1]], [[1], [0]], [1, 0])
    with pytest.raises(DataError, match="no passages"):
        udcg_theta.fit([[], []], [[], []], [1, 0])
    fitted = udcg_theta.fit([[0.1], [0.9]], [[1], [1]], [0, 1])
    with pytest.raises(DataError, match="1 positions"):
        fitted([0.1, 0.2], [1, 1])
    for strength in (0, -1, math.nan):
        with pytest.raises(DataError, match="strength"):
            udcg_theta.fit([[0.1], [0.9]], [[1], [1]], [0, 1], strength=strength)
    for odd in (math.nan, 2):
        with pytest.raises(DataError, match="an answer is"):
            udcg_theta.fit([[0.1], [0.9], [0.5]], [[1], [1], [0]], [0, 1, odd])
    with pytest.raises(DataError, match="cannot be read"):
        udcg_theta.load(tmp_path / "none.json")
    fitted.save(tmp_path / "good.json")
    for changes, said in (
        ({"measure": "UDCG"}, "measure"),
        ({"bias": math.nan}, "finite"),
        ({"measure": None}, "measure"),
    ):
        row = json.loads((tmp_path / "good.json").read_text()) | changes
        (tmp_path / "odd.json").write_text(json.dumps(row))
        with pytest.raises(DataError, match=said):
            udcg_theta.load(tmp_path / "odd.json")
    bad = tmp_path / "bad.json"
    bad.write_text('{"bias": 1}')
    with pytest.raises(DataError, match=r"bad\.json"):
        udcg_theta.load(bad)
