from __future__ import annotations

from itertools import permutations

import pytest

from utilitune.errors import ConfigError
from utilitune.records import Run
from utilitune.retrieval import fuse


def test_by_hand() -> None:
    first = Run({"q": [("a", 9.0), ("b", 8.0), ("c", 7.0)]})
    second = Run({"q": [("b", 0.3), ("d", 0.2)]})
    fused = fuse([first, second])
    assert [pid for pid, _ in fused["q"]] == ["b", "a", "d", "c"]
    assert dict(fused["q"]) == pytest.approx({"b": 1 / 62 + 1 / 61, "a": 1 / 61, "d": 1 / 62, "c": 1 / 63}, abs=1e-15)


def test_constant_and_depth() -> None:
    first = Run({"q": [("a", 9.0), ("b", 8.0)]})
    second = Run({"q": [("c", 9.0), ("a", 8.0)]})
    assert fuse([first, second], k=0, depth=1)["q"] == [("c", 1.0), ("a", 1.0)]
    assert fuse([first, second], k=0)["q"] == [("a", 1.5), ("c", 1.0), ("b", 0.5)]


def test_order_of_runs_never_matters() -> None:
    ids = "abcdefg"
    runs = [
        Run({"q": [(ids[(3 * i + j * shift) % 7], 1.0 / (i + 1)) for i in range(7)]})
        for j, shift in ((1, 1), (2, 2), (3, 5))
    ]
    results = {str(fuse(list(order))["q"]) for order in permutations(runs)}
    assert len(results) == 1


def test_queries_of_any_run_and_empty_rankings() -> None:
    fused = fuse([Run({"q1": [("a", 1.0)], "q2": []}), Run({"q3": [("b", 1.0), ("b", 0.5), ("c", 0.1)]})], k=1)
    assert list(fused) == ["q1", "q2", "q3"]
    assert fused["q2"] == []
    assert fused["q3"] == [("b", 1 / 2), ("c", 1 / 3)]


@pytest.mark.parametrize("bad", [{"runs": []}, {"runs": [Run()], "k": -1}, {"runs": [Run()], "depth": 0}])
def test_senseless_arguments_are_refused(bad: dict) -> None:
    with pytest.raises(ConfigError):
        fuse(**bad)
