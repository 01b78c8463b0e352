"""How far two rerankings agree: by hand, and what is left out."""

from __future__ import annotations

import math

import pytest

from utilitune.errors import UtilituneError
from utilitune.records import Run
from utilitune.rerank.export_agreement import agreement
from utilitune.rerank.export_onnx import _judge

MODEL = Run({"q": [("a", 3.0), ("b", 2.0), ("c", 1.0)], "r": [("d", 1.0)], "empty": []})
EXPORTED = Run({"q": [("b", 2.5), ("a", 2.0), ("c", 1.0)], "r": [("d", 0.75)], "empty": []})


def test_by_hand():
    found = agreement(MODEL, EXPORTED, {"q": {"a": 1.0}, "r": {"d": 0.0}, "other": {"a": 1.0}})
    assert (found.pairs, found.queries) == (4, 2)
    assert found.largest == 1.0 and found.average == pytest.approx((1 + 0.5 + 0 + 0.25) / 4)
    # q: 1, 2, 3 have variance 2/3; r has none.
    assert found.spread == pytest.approx(math.sqrt(2 / 3) / 2)
    # Two of the three pairs of q keep their order; r has no pair.
    assert found.kendall == pytest.approx(1 / 3) and found.undefined == 1
    assert found.same_top == 1
    # The one relevant passage falls from rank 1 to rank 2. r has no gain, "other" was not reranked.
    assert found.ndcg is not None and found.ndcg["n"] == 1
    assert found.ndcg["before"] == 1.0 and found.ndcg["after"] == pytest.approx(1 / math.log2(3))
    assert "same best passage 1 of 2, nDCG@10 1.0000 ▶ 0.6309" in found.reading


def test_a_run_agrees_with_itself():
    found = agreement(MODEL, MODEL, {})
    assert (found.largest, found.average, found.kendall, found.same_top) == (0.0, 0.0, 1.0, 2)
    assert found.ndcg is None and "not measured" in found.reading


def test_ties_leave_tau_undefined_and_are_counted():
    tied = Run({"q": [("a", 1.0), ("b", 1.0)]})
    found = agreement(tied, Run({"q": [("a", 2.0), ("b", 1.0)]}), {})
    assert found.kendall is None and found.undefined == 1 and "tau undefined" in found.reading


def test_an_fp32_graph_that_differs_is_refused_and_a_changed_order_warned_about(capsys):
    found = agreement(MODEL, EXPORTED, {})
    with pytest.raises(UtilituneError, match="differ by up to 1; nothing was kept"):
        _judge("fp32", found, 3.0)
    _judge("int8", found, 3.0)
    assert "int8 graph orders candidates differently: Kendall tau 0.333" in capsys.readouterr().err
    _judge("fp32", agreement(MODEL, MODEL, {}), 3.0)
    assert capsys.readouterr().err == ""
