"""UDCG inside ir-measures: the word, hand arithmetic, the same number as ours, judgements refused."""

import math
import random

import ir_measures
import pandas
import pytest
from ir_measures import RR
from pandas import DataFrame

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation import evaluate, udcg
from utilitune.evaluation.udcg_measure import UDCG, judged_utilities, signed_utilities
from utilitune.records import Run


def test_the_word_parses_and_prints():
    assert ir_measures.parse_measure("UDCG@5") == UDCG @ 5
    assert str(ir_measures.parse_measure("UDCG(gamma=0.5)@3")) == "UDCG(gamma=0.5)@3"
    assert ir_measures.parse_measure("UDCG(raw=True)@3")["raw"] is True


def test_by_hand_in_every_form_of_an_ir_measures_call():
    # Relevant .9 first, then a distractor of .6: (.9 - .6/3) / 2.
    signed = {"q": {"a": 0.9, "b": -0.6}}
    run = {"q": {"a": 2.0, "b": 1.0}}
    raw = UDCG(raw=True) @ 2
    assert ir_measures.calc_aggregate([raw], signed, run)[raw] == pytest.approx(0.35)
    frames = (
        pandas.DataFrame([("q", "a", 0.9), ("q", "b", -0.6)], columns=["query_id", "doc_id", "relevance"]),
        pandas.DataFrame([("q", "a", 2.0), ("q", "b", 1.0)], columns=["query_id", "doc_id", "score"]),
    )
    assert raw.calc_aggregate(*frames) == pytest.approx(0.35)
    (metric,) = (UDCG @ 2).iter_calc(
        [ir_measures.Qrel("q", "a", 0.9), ir_measures.Qrel("q", "b", -0.6)],
        [ir_measures.ScoredDoc("q", "a", 2.0), ir_measures.ScoredDoc("q", "b", 1.0)],
    )
    assert metric.value == pytest.approx(udcg([0.9, 0.6], [True, False]))
    assert UDCG(gamma=1.0, raw=True).calc_aggregate(signed, run) == pytest.approx(0.15)


def test_beside_classical_measures_in_one_call_with_a_column_of_utilities():
    utilities = {"q": {"a": 0.9, "b": 0.6}, "r": {}}
    frame = judged_utilities(utilities, {"q": {"a": 2.0, "b": 0.0, "c": 1.0}, "r": {"a": 1.0}})
    run = {"q": {"b": 3.0, "a": 2.0, "c": 1.0}}
    found = ir_measures.calc_aggregate([UDCG @ 3, UDCG(rel=3) @ 3, ir_measures.RR, ir_measures.nDCG @ 1], frame, run)
    assert found[ir_measures.RR] == 0.25
    assert found[ir_measures.nDCG @ 1] == 0.0
    assert found[UDCG @ 3] == pytest.approx(udcg([0.6, 0.9, None], [False, True, True]) / 2)
    assert found[UDCG(rel=3) @ 3] == pytest.approx(udcg([0.6, 0.9, None], [False, False, False]) / 2)
    assert len(set(frame["query_id"])) == 2


@pytest.mark.parametrize("seed", range(3))
def test_equals_evaluate_with_ties_missing_queries_and_missing_utilities(seed):
    rng = random.Random(seed)
    ids = [f"d{i}" for i in range(12)]
    qrels = {f"q{i}": {pid: float(rng.randrange(3)) for pid in rng.sample(ids, 4)} for i in range(8)}
    run = Run({f"q{i}": [(pid, float(rng.randrange(4))) for pid in rng.sample(ids, 8)] for i in range(1, 10)})
    utilities = {q: {pid: rng.random() for pid, _ in pairs if rng.random() < 0.8} for q, pairs in run.items()}
    ours = evaluate(qrels, run, ["UDCG@5", "rawUDCG@3"], utilities=utilities).per_query["run"]
    signed = signed_utilities(utilities, qrels)
    theirs = {q: dict(pairs) for q, pairs in run.items()}
    for name, measure in (("UDCG@5", UDCG @ 5), ("rawUDCG@3", UDCG(raw=True) @ 3)):
        values = {metric.query_id: metric.value for metric in ir_measures.iter_calc([measure], signed, theirs)}
        assert values == pytest.approx(ours[name])
        framed = measure.iter_calc(judged_utilities(utilities, qrels), theirs)
        assert {metric.query_id: metric.value for metric in framed} == pytest.approx(ours[name])


def test_judgements_in_place_of_utilities_are_refused():
    for grades in ({"a": 1, "b": 0}, {"a": 1, "b": -1, "c": 0}):
        with pytest.raises(DataError, match="judged_utilities"):
            ir_measures.calc_aggregate([UDCG @ 5], {"q": grades}, {"q": {"a": 1.0}})
    with pytest.raises(DataError, match="grade 2"):
        ir_measures.calc_aggregate([UDCG @ 5], {"q": {"a": 2, "b": 0}}, {"q": {"a": 1.0}})


def test_utilities_of_exactly_0_and_1_have_a_form_of_their_own():
    """A generator that never abstains: as signed utilities they look like judgements, beside a column they do not."""
    utilities, qrels = {"q": {"a": 1.0, "b": 1.0, "c": 0.0}}, {"q": {"a": 1.0, "b": 0.0, "c": 0.0}}
    run = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    with pytest.raises(DataError, match="judged_utilities"):
        ir_measures.calc_aggregate([UDCG @ 3], signed_utilities(utilities, qrels), run)
    run = DataFrame(
        [("q", passage, score) for passage, score in run["q"].items()], columns=["query_id", "doc_id", "score"]
    )
    found = ir_measures.calc_aggregate([UDCG @ 3, RR], judged_utilities(utilities, qrels), run)
    # (1 - 1/3 + 0) / 3
    assert found[UDCG @ 3] == pytest.approx(1 / (1 + math.exp(-2 / 9)))
    assert found[RR] == 1.0


def test_a_part_of_the_queries_gives_the_same_numbers():
    """As PyTerrier's batches do; its frames bring columns of their own along."""
    utilities = {"q": {"a": 0.9, "b": 0.5}, "r": {"a": 1.0, "b": 0.0}}
    judged = judged_utilities(utilities, {"q": {"a": 1.0, "b": 0.0}, "r": {"a": 0.0, "b": 1.0}})
    run = DataFrame(
        [(query_id, passage, score, "x") for query_id in "qr" for passage, score in (("a", 2.0), ("b", 1.0))],
        columns=["query_id", "doc_id", "score", "docno"],
    )
    whole = {m.query_id: m.value for m in ir_measures.iter_calc([UDCG @ 2], judged, run)}
    for query_id in "qr":
        own, part = judged[judged["query_id"] == query_id], run[run["query_id"] == query_id]
        assert {m.query_id: m.value for m in ir_measures.iter_calc([UDCG @ 2], own, part)} == {
            query_id: whole[query_id]
        }


@pytest.mark.parametrize("parameters", [{"gamma": math.nan}, {"gamma": -1}, {"gamma": math.inf}, {"cutoff": 0}])
def test_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(ConfigError):
        UDCG(**parameters)


def test_a_whole_number_is_a_weight():
    assert ir_measures.parse_measure("UDCG(gamma=1)@5") == UDCG(gamma=1.0) @ 5
    signed = {"q": {"a": 0.5, "b": -0.25}}
    run = {"q": {"a": 2.0, "b": 1.0}}
    found = ir_measures.calc_aggregate([UDCG(gamma=1) @ 2], signed, run)
    assert list(found.values()) == pytest.approx([1 / (1 + math.exp(-(0.5 - 0.25) / 2))])


def test_signed_utilities_by_hand():
    utilities = {"q": {"a": 0.9, "b": 0.6, "c": 0.2}, "z": {"a": 0.1}}
    qrels = {"q": {"a": 2.0, "b": 0.0, "d": 1.0}, "r": {"a": 1.0}}
    assert signed_utilities(utilities, qrels) == {"q": {"a": 0.9, "b": -0.6, "c": -0.2, "d": 0.0}, "r": {"a": 0.0}}
    assert signed_utilities(utilities, {"q": {"b": 0.0, "a": 1.0}}, relevant_from=2.0)["q"]["a"] == -0.9
