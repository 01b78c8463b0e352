"""A whole correlation study in a planted world, where utility predicts the answer and nDCG does not."""

import json
import random
from dataclasses import replace

import pytest
from correlation_world import ENOUGH, GAMMA, Judge, Sets, noise, planted
from signal_world import Table

from utilitune.errors import ConfigError, DataError, ThresholdError
from utilitune.evaluation import study_correlation, udcg
from utilitune.evaluation.study.correlation.rank import Draws
from utilitune.evaluation.study.correlation.table import correlation_text
from utilitune.evaluation.study.correlation.theta import fit_theta, folds_of, theta_by_chance, theta_scores
from utilitune.evaluation.udcg_theta import UdcgTheta
from utilitune.records import Labels, Passage, Run, UtilityLabel
from utilitune.retrieval import Bm25Retriever

ALONE = {"position": None, "ideal": None, "resamples": 40}
N = 20


@pytest.fixture(scope="module")
def world():
    return planted(N)


@pytest.fixture(scope="module")
def study(world):
    dataset, run = world
    return study_correlation(dataset, Judge(), {"run": run}, [1, 3, 5], **ALONE)


def test_utility_predicts_the_answer_and_ndcg_does_not():
    dataset, run = planted(questions=40)
    study = study_correlation(dataset, Judge(), {"run": run}, [5], **{**ALONE, "resamples": 400})
    found = {name: study.correlation(name, 5) for name in study.metrics}
    assert found["UDCG"].spearman.value > 0.8
    assert found["UDCG"].spearman.low > 0.7
    assert found["nDCG"].spearman.low < 0 < found["nDCG"].spearman.high
    assert abs(found["nDCG"].spearman.value) < 0.3
    versus = found["UDCG"].versus["nDCG"]
    assert versus.difference.low > 0.3, "the paired difference is sure"
    assert versus.relative is None, "no ratio to what may be 0"
    assert versus.difference.value == pytest.approx(found["UDCG"].spearman.value - found["nDCG"].spearman.value)
    bare = found["UDCG, no distraction"]
    assert bare.versus["UDCG"].difference.value < 0
    assert bare.versus["UDCG"].relative == pytest.approx(bare.spearman.value / found["UDCG"].spearman.value - 1)
    assert found["UDCG, no distraction"].spearman.value < found["UDCG"].spearman.value
    assert list(found["nDCG"].versus) == ["UDCG"], "nothing is compared with itself"


def test_learned_weights_predict_unseen_questions_too():
    dataset, run = planted(questions=120, seed=1)
    found = study_correlation(dataset, Judge(), {"run": run}, [5], **ALONE).correlation("UDCGθ", 5)
    assert found.spearman.low > 0.5
    assert found.versus["nDCG"].difference.low > 0.3


def test_what_does_not_vary_is_undefined_with_its_n(study):
    """One relevant passage in every list of five: precision, recall and hits are constant there."""
    for name in ("Precision", "Recall", "HITS", "UDCG, all u = 1"):
        found = study.correlation(name, 5)
        assert (found.spearman.value, found.kendall.value) == (None, None)
        assert found.versus["nDCG"].difference.value is None
        assert (found.undefined, found.n) == ("the metric is constant", N)
        assert study.correlation(name).lengths == (1, 3), "the mean is over the lengths that have a number"
    assert f"undefined (n={N})" in correlation_text(study)


def test_numbers_of_one_list_by_hand(world, study):
    dataset, _ = world
    ranked = next(each for each in study.lists if each.query_id == "q3" and each.k == 3)
    assert ranked.passage_ids == ("p3-0", "p3-1", "p3-2")
    texts = {passage.id: passage.text for passage in dataset.corpus}
    worth = [float(texts[each].split()[1]) for each in ranked.passage_ids]
    relevant = [each in dataset.qrels["q3"] for each in ranked.passage_ids]
    assert ranked.relevant == tuple(relevant)
    assert ranked.utilities == pytest.approx(worth)
    assert ranked.values["UDCG"] == pytest.approx(udcg(worth, relevant))
    assert ranked.values["mean u"] == pytest.approx(sum(worth) / 3)
    total = sum(u if flag else -GAMMA * u for u, flag in zip(worth, relevant, strict=True)) / 3
    assert ranked.right == (total > ENOUGH)
    alone = [u > ENOUGH and flag for u, flag in zip(worth, relevant, strict=True)]
    assert ranked.gains == tuple(map(float, alone))
    assert ranked.values["eRAG"] == pytest.approx(sum(alone) / 3)
    assert ranked.values["Precision"] == pytest.approx(sum(relevant) / 3)
    assert ranked.values["HITS"] == float(any(relevant))


def test_at_one_passage_erag_is_the_answer(study):
    assert study.correlation("eRAG", 1).kendall.value == pytest.approx(1.0)
    assert any("by definition" in note for note in study.notes)


def test_every_prompt_is_asked_once(world):
    dataset, run = world
    judge = Judge()
    study_correlation(dataset, judge, {"run": run, "again": run}, [1, 2, 5], **ALONE)
    assert len(judge.answered) == N * (5 + 2), (
        "five single passages, lists of two and five; one system repeats the other"
    )


def test_order_of_files_and_names_of_passages_change_nothing(world, study):
    dataset, run = world
    rng = random.Random(7)
    names = {passage.id: f"x{rng.random()}" for passage in dataset.corpus}
    corpus = rng.sample([replace(passage, id=names[passage.id]) for passage in dataset.corpus], len(dataset.corpus))
    moved = replace(
        dataset,
        corpus=corpus,
        queries=rng.sample(dataset.queries, len(dataset.queries)),
        qrels={
            query_id: {names[each]: grade for each, grade in own.items()} for query_id, own in dataset.qrels.items()
        },
    )
    renamed = Run({query_id: [(names[each], score) for each, score in run[query_id]] for query_id in reversed(run)})
    again = study_correlation(moved, Judge(), {"run": renamed}, [1, 3, 5], **ALONE)
    assert [each.spearman for each in again.correlations] == [each.spearman for each in study.correlations]
    assert [each.kendall for each in again.correlations] == [each.kendall for each in study.correlations]


def test_a_larger_limit_extends_a_smaller_one(world):
    dataset, run = world
    small = study_correlation(dataset, Judge(), {"run": run}, [2], limit=6, **ALONE)
    large = study_correlation(dataset, Judge(), {"run": run}, [2], limit=9, **ALONE)
    assert [each.query_id for each in large.lists[:6]] == [each.query_id for each in small.lists]
    assert small.counts["questions beyond the limit"] == N - 6
    assert small.counts["questions studied"] == 6
    other = study_correlation(dataset, Judge(), {"run": run}, [2], limit=6, seed=5, **ALONE)
    assert [each.query_id for each in other.lists] != [each.query_id for each in small.lists]


def test_two_systems_are_pooled_and_apart(world):
    dataset, run = world
    other = Run({query_id: [(each, -score) for each, score in own] for query_id, own in run.items()})
    study = study_correlation(dataset, Judge(), {"a": run, "b": other}, [2, 3], **ALONE)
    assert study.blocks == ["all", "a", "b"]
    pooled = study.correlation("UDCG", 2)
    assert (pooled.n, pooled.questions) == (2 * N, N)
    assert [study.correlation("UDCG", 2, name).n for name in ("a", "b")] == [N, N]
    with pytest.raises(KeyError, match="metrics: Precision"):
        study.correlation("precision")


def test_utilities_of_passages_and_of_lists_are_metrics_too(world):
    dataset, run = world
    table = Table("number", {passage.id: float(passage.id.rpartition("-")[2]) for passage in dataset.corpus})
    study = study_correlation(
        dataset, Judge(), {"run": run}, [1, 3], utilities=[table], set_utilities=[Sets()], **ALONE
    )
    assert {each.values["mean number"] for each in study.lists if each.k == 3} == {1.0}
    assert study.correlation("mean number", 3).undefined == "the metric is constant"
    assert {each.values["sets"] for each in study.lists} == {1.0, 3.0}
    assert study.correlation("sets").n == 2 * N


def test_labels_that_fail_leave_lists_out_of_that_metric_and_are_counted(world):
    dataset, run = world
    numbers = {passage.id: 1.0 for passage in dataset.corpus if not passage.id.startswith("p3-")}
    with pytest.raises(ThresholdError, match="failed"):
        study_correlation(
            dataset, Judge(), {"run": run}, [2], utilities=[Table("holes", numbers)], max_failed=0, **ALONE
        )
    study = study_correlation(dataset, Judge(), {"run": run}, [2], utilities=[Table("holes", numbers)], **ALONE)
    assert study.correlation("mean holes", 2).n == N - 1
    assert study.correlation("UDCG", 2).n == N
    assert study.counts["labels: failed"] == 2, "only the passages that are shown are labelled"


def test_short_and_empty_lists_are_counted(world):
    dataset, run = world
    short = Run({**run, "q1": run["q1"][:2], "q2": []})
    del short["q4"]
    study = study_correlation(dataset, Judge(), {"run": short}, [3], **ALONE)
    assert study.counts["lists shorter than k"] == 3
    assert study.counts["run: questions that the run lacks"] == 1
    assert study.counts["run: questions without any passage"] == 2
    assert study.counts["run: questions with fewer than 3 passages"] == 1
    empty = next(each for each in study.lists if each.query_id == "q2")
    assert (empty.passage_ids, empty.right) == ((), False)
    assert {empty.values[name] for name in ("nDCG", "UDCG", "mean u", "eRAG", "UDCGθ")} == {0.0}


def test_all_answers_wrong_is_said_not_zero(world):
    dataset, run = world
    study = study_correlation(dataset, Judge(enough=2.0), {"run": run}, [2], **ALONE)
    for name in study.metrics:
        found = study.correlation(name, 2)
        assert found.spearman.value is None
        assert found.undefined
    assert study.correlation("nDCG", 2).undefined == "every answer is wrong"
    assert "a fold cannot be fitted" in study.correlation("UDCGθ", 2).undefined
    assert any("UDCGθ is undefined at k = 2" in note for note in study.notes)
    assert any(f"0 of {N} answers are right" in note for note in study.notes)
    json.dumps(study.as_dict(), allow_nan=False)


def test_questions_that_cannot_be_studied_are_counted(world):
    dataset, run = world
    queries = [replace(query, answers=(" ",)) if query.id == "q0" else query for query in dataset.queries]
    qrels = {query_id: own for query_id, own in dataset.qrels.items() if query_id != "q1"}
    study = study_correlation(replace(dataset, queries=queries, qrels=qrels), Judge(), {"run": run}, [1], **ALONE)
    assert study.counts["questions without a gold answer"] == 1
    assert study.counts["questions without a relevant passage in the corpus"] == 1
    assert study.counts["questions studied"] == N - 2
    with pytest.raises(DataError, match=f"{N} no relevant passage in the corpus"):
        study_correlation(replace(dataset, qrels={}), Judge(), {"run": run}, [1], **ALONE)


def test_relevance_by_containment_needs_no_judgements(world, study):
    dataset, run = world
    found = study_correlation(replace(dataset, qrels={}), Judge(), {"run": run}, [5], relevance="contains", **ALONE)
    assert found.correlation("UDCG", 5).spearman == study.correlation("UDCG", 5).spearman
    assert found.manifest["data"]["relevance"] == "contains"


def test_relevance_by_the_labels_of_a_utility(world, study):
    """Labels that say what the judgements say give the same study; passages and questions without one are counted."""
    dataset, run = world
    rows = [
        UtilityLabel(query_id, (each,), 0.4 if each in dataset.qrels[query_id] else 0.1, "ok", "llm-relevance@0a1b2c3d")
        for query_id, ranked in run.items()
        for each, _ in ranked
    ]
    bare = replace(dataset, qrels={})
    found = study_correlation(bare, Judge(), {"run": run}, [1, 3, 5], relevance=Labels(rows), **ALONE)
    assert found.correlations == study.correlations
    assert found.manifest["data"]["relevance"] == "llm-relevance@0a1b2c3d, best of each query"
    assert "relevance llm-relevance@0a1b2c3d, best of each query" in correlation_text(found)
    from_a_number = study_correlation(
        bare, Judge(), {"run": run}, [5], relevance=Labels(rows), relevant_from=0.3, **ALONE
    )
    assert from_a_number.correlation("UDCG", 5) == study.correlation("UDCG", 5)
    assert from_a_number.manifest["data"]["relevance"].endswith(", from 0.3")
    fewer = [row for row in rows if row.query_id != "q3" and row.passage_ids[0] != "p4-0"]
    less = study_correlation(bare, Judge(), {"run": run}, [5], relevance=Labels(fewer), **ALONE)
    assert less.counts["questions without a relevance label"] == 1
    assert less.counts["retrieved passages without a relevance label (irrelevant)"] == 1
    assert less.counts["questions studied"] == N - 1
    nothing = study_correlation(bare, Judge(), {"run": run}, [5], relevance=Labels(rows), relevant_from=0.9, **ALONE)
    assert nothing.counts["questions without a relevant passage (not in nDCG)"] == N
    with pytest.raises(DataError, match="share no query"):
        study_correlation(bare, Judge(), {"run": run}, [5], relevance=Labels([replace(rows[0], query_id="x")]), **ALONE)


def test_retrievers_search_for_themselves(world):
    dataset, _ = world
    study = study_correlation(dataset, Judge(), {"bm25": Bm25Retriever.build(dataset.corpus)}, [1, 2], limit=8, **ALONE)
    assert study.manifest["systems"]["bm25"]["k1"] == 0.9
    assert all(ranked.passage_ids[0].startswith(f"p{ranked.query_id[1:]}-") for ranked in study.lists)


def test_answers_that_are_there_are_not_asked_for(world, study, tmp_path):
    dataset, run = world
    judge = Judge()
    again = study_correlation(dataset, judge, {"run": run}, [1, 3, 5], answers=study.answers, **ALONE)
    assert (len(judge.answered), judge.forced) == (0, 5 * N), "u of single passages alone"
    assert again.counts["answers given"] == len(study.answers)
    assert any("answers were given and not asked for" in note for note in again.notes)
    assert [each.spearman for each in again.correlations] == [each.spearman for each in study.correlations]


def test_a_store_answers_a_second_study(world, study, tmp_path):
    dataset, run = world
    first = Judge()
    study_correlation(dataset, first, {"run": run}, [1, 3], store=tmp_path / "s.sqlite", **ALONE)
    second = Judge()
    again = study_correlation(dataset, second, {"run": run}, [1, 3, 5], store=tmp_path / "s.sqlite", **ALONE)
    assert len(second.answered) == N * (2 + 1), "two more single passages and one list a question"
    assert [each.spearman for each in again.correlations] == [each.spearman for each in study.correlations]


def test_theta_is_never_fitted_on_what_it_scores(study):
    lists = [ranked for ranked in study.lists if ranked.k == 5]
    share = {ranked.query_id: float(ranked.right) for ranked in lists}
    fold_of = folds_of(share)
    assert len(set(fold_of.values())) == 5
    by_fold = [sum(share[each] for each in share if fold_of[each] == fold) for fold in range(5)]
    assert max(by_fold) - min(by_fold) <= 1, "right answers are dealt in equal shares"
    scores, why = theta_scores(lists)
    assert not why
    for ranked, score in zip(lists, scores, strict=True):
        unseen = fit_theta([each for each in lists if fold_of[each.query_id] != fold_of[ranked.query_id]])
        assert score == pytest.approx(unseen(ranked.utilities, ranked.relevant))
        assert score != pytest.approx(study.theta[5](ranked.utilities, ranked.relevant), abs=1e-6)


def test_lists_of_one_question_share_a_fold(study):
    lists = [ranked for ranked in study.lists if ranked.k == 5]
    twice = [*lists, *(replace(ranked, system="other") for ranked in lists)]
    scores, _ = theta_scores(twice)
    assert scores[: len(lists)] == scores[len(lists) :]


def test_noise_has_no_cross_validated_correlation():
    """Folds of unequal shares of right answers would give -.10 here, where nothing predicts anything."""
    found = []
    for seed in range(12):
        lists = noise(seed)
        scores, _ = theta_scores(lists)
        right = [ranked.right for ranked in lists]
        found.append(Draws(len(lists), resamples=1).correlate(scores, right, range(len(lists))).spearman[0])
    assert abs(sum(found) / len(found)) < 0.06


def test_chance_is_told_beside_theta(study):
    """With the answers of other questions nothing is left of what the fit finds; the note says how far chance goes."""
    chance = study.theta_by_chance
    assert chance.low <= chance.value <= chance.high < study.correlation("UDCGθ").spearman.value
    assert f"mean ρ of {chance.value:+.3f} ({chance.low:+.3f} to {chance.high:+.3f} in 20 deals)" in correlation_text(
        study
    )
    assert study.as_dict()["theta_by_chance"]["value"] == chance.value
    assert theta_by_chance(study.lists, seed=13) == chance
    assert theta_by_chance(study.lists, seed=14) != chance


def test_a_fit_carries_over_to_other_questions(tmp_path):
    """Fitted on one planted world, saved, loaded, applied to another of the same rule; and one of the contrary rule."""
    dataset, run = planted(questions=120, seed=1)
    study = study_correlation(dataset, Judge(), {"run": run}, [3, 5], **ALONE)
    elsewhere, run = planted(questions=60, seed=7)
    fits = [study.theta[k] for k in (3, 5)]
    for fit in fits:
        fit.save(tmp_path / f"theta-{fit.k}.json")
    loaded = [UdcgTheta.load(tmp_path / f"theta-{k}.json") for k in (3, 5)]
    found = study_correlation(elsewhere, Judge(), {"run": run}, [1, 3, 5], theta=loaded, **ALONE)
    own = found.correlation("UDCGθ, fitted elsewhere", 5)
    assert own.spearman.low > 0.5
    assert found.correlation("UDCGθ, fitted elsewhere").lengths == (3, 5), "its k is fixed"
    ranked = next(each for each in found.lists if each.k == 3)
    assert ranked.values["UDCGθ, fitted elsewhere"] == fits[0](ranked.utilities, ranked.relevant)
    contrary = replace(fits[1], relevant_weights=tuple(-w for w in fits[1].relevant_weights))
    contrary = replace(contrary, irrelevant_weights=tuple(-w for w in fits[1].irrelevant_weights))
    turned = study_correlation(elsewhere, Judge(), {"run": run}, [5], theta=[contrary], **ALONE)
    assert turned.correlation("UDCGθ, fitted elsewhere", 5).spearman.high < 0
    assert "UDCGθ, fitted elsewhere" not in study.metrics


def test_a_fit_of_another_generator_is_noted(world, study):
    dataset, run = world
    fit = replace(study.theta[5], generator="another")
    found = study_correlation(dataset, Judge(), {"run": run}, [5], theta=[fit], **ALONE)
    assert any("on answers of another, and applied to those of" in note for note in found.notes)
    told = found.manifest["options"]["theta"]["5"]
    assert (told["generator"], told["sha256"]) == ("another", fit.sha256)


@pytest.mark.parametrize(("ks", "said"), [((5, 5), "two fits"), ((3,), "its k is fixed")])
def test_fits_that_do_not_belong_are_refused(world, study, ks, said):
    dataset, run = world
    with pytest.raises(ConfigError, match=said):
        study_correlation(dataset, Judge(), {"run": run}, [5], theta=[study.theta[k] for k in ks], **ALONE)


def test_chance_covers_what_noise_gives():
    lists = noise(3)
    scores, _ = theta_scores(lists)
    found = Draws(1).correlate(scores, [ranked.right for ranked in lists], [0] * len(lists)).spearman[0]
    chance = theta_by_chance(lists, deals=40, seed=13)
    assert chance.low < found < chance.high
    assert abs(chance.value) < 0.1


def test_chance_without_a_fit_is_no_number(study):
    wrong = [replace(ranked, right=False) for ranked in study.lists]
    assert theta_by_chance(wrong, seed=13).value is None
    assert theta_by_chance([], seed=13).value is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ks": []}, "at least one list length"),
        ({"ks": [0]}, "at least 1"),
        ({"folds": 1}, "folds is 1"),
        ({"relevant_from": 0}, "above 0"),
        ({"relevance": "llm"}, "known: judged, contains"),
        ({"relevance": "contains", "relevant_from": 1.0}, "takes no relevant_from"),
        ({"limit": 0}, "limit is 0"),
        ({"systems": {}}, "name at least one, such as bm25"),
        ({"systems": {"all": planted(1)[1]}}, "as all of them together are"),
        ({"answer_measure": "F1"}, "known here: contains, EM"),
        ({"u": "gain"}, "known:"),
        ({"position": 1}, "at least 2 passages"),
        ({"ideal": 0}, "at least 1 passage"),
    ],
)
def test_options_out_of_range_are_refused(world, changes, said):
    dataset, run = world
    systems, ks = changes.pop("systems", {"run": run}), changes.pop("ks", [1])
    with pytest.raises(ConfigError, match=said):
        study_correlation(dataset, Judge(), systems, ks, **{**ALONE, **changes})


def test_runs_of_other_data_are_refused(world):
    dataset, run = world
    with pytest.raises(DataError, match=f"has none of the {N} questions"):
        study_correlation(dataset, Judge(), {"run": Run({"other": []})}, [1], **ALONE)
    with pytest.raises(DataError, match="'nowhere' of run 'run'"):
        study_correlation(dataset, Judge(), {"run": Run({**run, "q0": [("nowhere", 1.0)]})}, [1], **ALONE)
    fractional = replace(dataset, qrels={query_id: dict.fromkeys(own, 0.5) for query_id, own in dataset.qrels.items()})
    with pytest.raises(ConfigError, match="relevant"):
        study_correlation(fractional, Judge(), {"run": run}, [1], **ALONE)
    assert study_correlation(fractional, Judge(), {"run": run}, [1], relevant_from=0.5, **ALONE).lists


def test_an_unjudged_passage_is_irrelevant_and_distracts(world):
    dataset, run = world
    other = Passage("other", "worth 0.5 it is.")
    more = Run({**run, "q0": [("other", 9.0), *run["q0"]]})
    study = study_correlation(replace(dataset, corpus=[*dataset.corpus, other]), Judge(), {"run": more}, [2], **ALONE)
    found = next(each for each in study.lists if each.query_id == "q0")
    assert (found.passage_ids, found.relevant[0]) == (("other", "p0-0"), False)
    assert found.values["UDCG"] == pytest.approx(udcg(found.utilities, found.relevant))
    assert found.values["UDCG"] < found.values["UDCG, no distraction"]
