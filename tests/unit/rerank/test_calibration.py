"""Calibration of a reranker whose scores are a known rule, and abstaining by it."""

from __future__ import annotations

import json
import math

import pytest
import torch

from utilitune.errors import ConfigError, DataError
from utilitune.records import Dataset, Passage, Query, Run
from utilitune.rerank import Group, Groups, Relevance, UtilityReranker, calibrate
from utilitune.rerank.calibration import CALIBRATION_FILE, read_calibration
from utilitune.rerank.platt import fit_temperature

TEXTS = ("good mill", "red", "blue king", "old town", "a river", "the new bridge")


@pytest.fixture
def reranker(tiny_bert):
    made = UtilityReranker.untrained(tiny_bert, seed=5, device="cpu")
    with torch.no_grad():
        made.model.transformers_model.classifier.weight.mul_(100)
    return made


def groups_by(reranker, utility, *, relevance=None, queries=6):
    """Groups whose utilities are a function of the reranker's own scores."""
    made = []
    for place, word in enumerate(("mill", "king", "river", "town", "red", "bridge")[:queries]):
        utilities = tuple(utility(score) for score in reranker.score(word, TEXTS))
        ids = tuple(f"p{i}" for i in range(len(TEXTS)))
        made.append(Group(f"q{place}", word, ids, TEXTS, utilities, utilities))
    return Groups(made, rule="none", relevance=relevance)


def all_scores(reranker, groups):
    return [score for group in groups for score in reranker.score(group.query, group.passages)]


def test_temperature_and_probabilities(reranker):
    middle = sorted(all_scores(reranker, groups_by(reranker, float)))[18]
    groups = groups_by(reranker, lambda score: 1 / (1 + math.exp(-(score - middle) / 2)))
    made = calibrate(reranker, groups)
    scores = all_scores(reranker, groups)
    expected = fit_temperature(scores, [u for group in groups for u in group.utilities])
    assert (made.temperature, made.shift) == pytest.approx(expected, rel=1e-5)
    assert made.pairs == 36 and made.queries == 6
    assert made.cross_entropy < min(made.cross_entropy_base, made.cross_entropy_raw)
    assert made.probability(made.shift) == 0.5
    assert made.probability(made.score(0.3)) == pytest.approx(0.3)
    assert made.targets["helps_above"] is None and made.targets["gamma"] == pytest.approx(1 / 3)
    for wrong in (0.0, 1.0, math.nan):
        with pytest.raises(ConfigError, match="within"):
            made.score(wrong)


def test_the_threshold_is_where_passages_begin_to_help(reranker):
    ordered = sorted(all_scores(reranker, groups_by(reranker, float)))
    helps_from = ordered[-5]
    made = calibrate(reranker, groups_by(reranker, float), helps_above=ordered[-6], k=6)
    assert ordered[-6] < made.threshold.score < helps_from
    assert made.threshold.kept == 5 and made.threshold.value == pytest.approx(5 / 6)
    assert made.threshold.value_of_all == pytest.approx((5 - 31 / 3) / 6)


def test_signed_utilities_count_help_alone_as_target_and_all_as_worth(reranker):
    ordered = sorted(all_scores(reranker, groups_by(reranker, float)))
    groups = groups_by(
        reranker, lambda score: 0.8 if score >= ordered[-4] else -0.3, relevance=Relevance("answer", gamma=0.5)
    )
    made = calibrate(reranker, groups, k=6)
    assert made.base_rate == pytest.approx(4 * 0.8 / 36)
    assert made.threshold.value == pytest.approx(4 * 0.8 / 6) and made.threshold.kept == 4
    assert made.targets["relevance"]["source"] == "answer" and made.targets["gamma"] == 0.5
    with pytest.raises(ConfigError, match="helps_above with relevance"):
        calibrate(reranker, groups, helps_above=0.0)


def test_training_queries_and_scores_that_are_not_finite_are_left_out_and_counted(reranker):
    groups = groups_by(reranker, lambda score: 1 / (1 + math.exp(-score)))
    index = reranker.model.tokenizer.convert_tokens_to_ids("bridge")
    with torch.no_grad():
        reranker.model.transformers_model.bert.embeddings.word_embeddings.weight[index] = math.nan
    made = calibrate(reranker, groups, trained_on=frozenset({"q1", "q5"}))
    assert made.queries == 4 and made.pairs == 4 * 5
    assert made.left_out == {
        "queries that it was trained on": 2,
        "queries of the same conversations": 0,
        "scores that are not finite": 4,
    }
    with pytest.raises(DataError, match="none of the 6 labelled queries is held out"):
        calibrate(reranker, groups, trained_on=frozenset(f"q{i}" for i in range(6)))


def test_conversations_that_were_trained_on_are_left_out_whole(reranker):
    groups = groups_by(reranker, lambda score: 1 / (1 + math.exp(-score)))
    conversations = {"q0": "a", "q1": "a", "q2": "b", "q3": "b", "q4": "q5", "q5": "c"}
    # q0 takes q1 with it, and q9 of other data nothing; q5 is also the name of a conversation, that of q4.
    made = calibrate(reranker, groups, trained_on=frozenset({"q0", "q5", "q9"}), conversations=conversations)
    alone = calibrate(reranker, groups, trained_on=frozenset({"q0", "q1", "q5"}))
    assert made.queries == 3 and (made.temperature, made.shift) == (alone.temperature, alone.shift)
    assert made.left_out["queries that it was trained on"] == 2
    assert made.left_out["queries of the same conversations"] == 1
    with pytest.raises(DataError, match="trained on 3, queries of the same conversations 3"):
        calibrate(
            reranker, groups, trained_on=frozenset({"q0", "q2", "q4"}), conversations=dict.fromkeys(conversations, "a")
        )


def test_utilities_that_are_no_probabilities_need_to_know_what_helps(reranker):
    with pytest.raises(DataError, match="helps_above"):
        calibrate(reranker, groups_by(reranker, lambda score: 3.0 * score))
    middle = sorted(all_scores(reranker, groups_by(reranker, float)))[18]
    with pytest.raises(DataError, match="do not rise"):
        calibrate(reranker, groups_by(reranker, lambda score: -score), helps_above=-middle)
    for wrong in ({"k": 0}, {"gamma": 1.5}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            calibrate(reranker, groups_by(reranker, lambda score: 0.5), **wrong)


def test_it_lies_in_the_folder_and_goes_when_the_weights_do(reranker, tmp_path):
    made = calibrate(reranker, groups_by(reranker, lambda score: 1 / (1 + math.exp(-score))))
    reranker.calibration = made
    reranker.save(tmp_path / "m")
    again = UtilityReranker.load(tmp_path / "m", device="cpu")
    assert again.calibration == made == read_calibration(tmp_path / "m")
    assert "manifest" in json.loads((tmp_path / "m" / CALIBRATION_FILE).read_text())
    reranker.calibration = None
    reranker.save(tmp_path / "m")
    assert UtilityReranker.load(tmp_path / "m", device="cpu").calibration is None
    (tmp_path / "m" / CALIBRATION_FILE).write_text('{"temperature": -1}')
    with pytest.raises(DataError, match="utilitune calibrate"):
        UtilityReranker.load(tmp_path / "m", device="cpu")


CORPUS = [Passage(f"p{place}", text) for place, text in enumerate(TEXTS)]
QUERIES = [Query("q", "mill"), Query("r", "king")]


def test_rank_gives_probabilities_on_demand_in_the_same_order(reranker):
    with pytest.raises(ConfigError, match="not calibrated"):
        reranker.rank("mill", CORPUS, calibrated=True)
    reranker.calibration = calibrate(reranker, groups_by(reranker, lambda score: 1 / (1 + math.exp(-score / 3))))
    plain, shown = reranker.rank("mill", CORPUS), reranker.rank("mill", CORPUS, calibrated=True)
    assert [passage.id for passage, _ in plain] == [passage.id for passage, _ in shown]
    assert [p for _, p in shown] == [reranker.calibration.probability(score) for _, score in plain]
    assert all(0 <= p <= 1 for _, p in shown)


def test_rank_leaves_out_what_scores_less(reranker):
    ranked = reranker.rank("mill", CORPUS)
    third = ranked[2][1]
    assert reranker.rank("mill", CORPUS, min_score=third) == ranked[:3]
    assert reranker.counts["dropped"] == 3 and reranker.counts["abstained"] == 0
    assert reranker.rank("mill", CORPUS, 1, min_score=third) == ranked[:1]
    assert reranker.rank("mill", CORPUS, min_score=ranked[0][1] + 1) == []
    assert reranker.counts["abstained"] == 1
    assert reranker.rank("mill", [], min_score=0.0) == [] and reranker.counts["abstained"] == 1


def test_rerank_gives_every_query_its_own_k(reranker):
    run = Run({query.id: [(f"p{i}", 10.0 - i) for i in range(6)] for query in QUERIES})
    dataset = Dataset(CORPUS, QUERIES)
    full = reranker.rerank(run, dataset)
    least = (full["q"][0][1] + full["r"][0][1]) / 2  # above the best of one of the two
    made = reranker.rerank(run, dataset, min_score=least)
    for query_id in ("q", "r"):
        assert made[query_id] == [pair for pair in full[query_id] if pair[1] >= least]
    assert sorted(map(bool, made.values())) == [False, True]
    assert reranker.counts["abstained"] == 1
    assert reranker.counts["dropped"] == 12 - sum(map(len, made.values()))
    cut = reranker.rerank(run, dataset, k=2)
    assert cut == Run({query_id: ranking[:2] for query_id, ranking in full.items()})


def test_passages_below_the_depth_and_of_no_score_are_not_kept(reranker):
    index = reranker.model.tokenizer.convert_tokens_to_ids("river")
    with torch.no_grad():
        reranker.model.transformers_model.bert.embeddings.word_embeddings.weight[index] = math.nan
    run = Run({"q": [(f"p{i}", 10.0 - i) for i in range(6)]})
    made = reranker.rerank(run, Dataset(CORPUS, QUERIES), depth=5, min_score=-1e6)
    assert {pid for pid, _ in made["q"]} == {"p0", "p1", "p2", "p3"}
    assert reranker.counts["dropped"] == 2
