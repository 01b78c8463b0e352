"""The contract of evaluate: ties, missing queries, grades; parity with pytrec_eval and ir-measures."""

import json
import math
import random

import ir_measures
import pytest
import pytrec_eval

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation import evaluate, render_table
from utilitune.evaluation.fractional_ndcg import fractional_ndcg
from utilitune.records import Answer, Dataset, Labels, Passage, Query, Run, UtilityLabel

MEASURES = ["MRR@10", "RR", "nDCG@10", "nDCG", "R@5", "P@5", "Success@1", "MAP", "AP@10"]


def one(qrels, run, *measures, **options):
    result = evaluate(qrels, Run(run), measures, **options)
    return [result.mean("run", measure) for measure in measures]


def test_hand_arithmetic():
    # d1 at rank 2 (grade 2), d3 at rank 3 (grade 1), d9 (grade 1) not retrieved.
    qrels = {"q": {"d1": 2.0, "d3": 1.0, "d9": 1.0, "d0": 0.0}}
    run = {"q": [("d0", 3.0), ("d1", 2.0), ("d3", 1.0)]}
    dcg = 2 / math.log2(3) + 1 / math.log2(4)
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert one(
        qrels, run, "MRR@10", "MRR@1", "R@2", "R@3", "P@2", "P@5", "MAP", "nDCG@10", "Success@1"
    ) == pytest.approx([1 / 2, 0, 1 / 3, 2 / 3, 1 / 2, 2 / 5, (1 / 2 + 2 / 3) / 3, dcg / ideal, 0])


def random_world(seed, queries=40, candidates=30):
    rng = random.Random(seed)
    ids = [f"d{i}" for i in range(60)]
    qrels = {f"q{i}": {pid: rng.choice([0, 0, 1, 2, 3]) for pid in rng.sample(ids, 8)} for i in range(queries)}
    for grades in qrels.values():
        grades[next(iter(grades))] = 1
    run = Run()
    for i in range(queries + 5):
        if i % 7 == 3:
            continue
        picked = rng.sample(ids, candidates)
        # Few distinct scores: many ties.
        run[f"q{i}"] = [(pid, float(rng.randrange(8))) for pid in picked]
    return qrels, run


@pytest.mark.parametrize("seed", range(3))
def test_parity_with_pytrec_eval_on_ties(seed):
    qrels, run = random_world(seed)
    theirs = pytrec_eval.RelevanceEvaluator(
        qrels, {"recip_rank", "ndcg", "ndcg_cut_10", "recall_5", "P_5", "success_1", "map", "map_cut_10"}
    ).evaluate({query_id: dict(pairs) for query_id, pairs in run.items()})
    ours = evaluate(qrels, run, MEASURES).per_query["run"]
    names = {
        "RR": "recip_rank",
        "nDCG@10": "ndcg_cut_10",
        "nDCG": "ndcg",
        "R@5": "recall_5",
        "P@5": "P_5",
        "Success@1": "success_1",
        "MAP": "map",
        "AP@10": "map_cut_10",
    }
    assert len(theirs) < len(qrels)
    for name, their_name in names.items():
        for query_id in qrels:
            expected = theirs[query_id][their_name] if query_id in theirs else 0.0
            assert ours[name][query_id] == pytest.approx(expected, abs=1e-9), (name, query_id)
    for query_id in qrels:
        rr = theirs.get(query_id, {}).get("recip_rank", 0.0)
        assert ours["MRR@10"][query_id] == pytest.approx(rr if rr >= 0.1 else 0.0)


def test_parity_with_ir_measures_means_including_missing_queries():
    qrels, run = random_world(11)
    wanted = [ir_measures.parse_measure(name) for name in ("nDCG@10", "R@5", "P@5", "AP", "RR")]
    theirs = ir_measures.pytrec_eval.calc_aggregate(wanted, qrels, {q: dict(pairs) for q, pairs in run.items()})
    result = evaluate(qrels, run, [str(measure) for measure in wanted])
    for measure in wanted:
        assert result.mean("run", str(measure)) == pytest.approx(theirs[measure], abs=1e-9)


def test_scores_equal_in_32_bits_keep_their_order():
    # trec_eval reads scores as 32-bit floats, where these two are equal.
    qrels = {"q": {"a": 1.0}}
    assert one(qrels, {"q": [("a", 1.0 + 1e-12), ("b", 1.0)]}, "MRR@10") == [1.0]


def test_more_decimals_than_a_float_and_huge_scores():
    qrels = {"q": {"a": 1.0}}
    assert one(qrels, {"q": [("b", 1e300), ("a", 2e300)]}, "MRR@10") == [1.0]


def test_constant_scorer_is_permutation_invariant():
    ids = [f"d{i:03d}" for i in range(100)]
    qrels = {"q": {"d050": 1.0}}
    results = set()
    for seed in range(5):
        random.Random(seed).shuffle(ids)
        results.add(tuple(one(qrels, {"q": [(pid, 1.0) for pid in ids]}, "MRR@100", "nDCG@100", "AP")))
    assert len(results) == 1
    assert results.pop()[0] == pytest.approx(1 / 50)


def test_ties_go_by_id_for_every_measure_and_are_counted():
    run = {"q": [("a", 1.0), ("b", 1.0), ("c", 1.0)]}
    result = evaluate({"q": {"b": 1.0}}, Run(run), ["MRR@10", "nDCG@10", "P@1"])
    assert result.mean("run", "MRR@10") == 0.5
    assert result.mean("run", "nDCG@10") == pytest.approx(1 / math.log2(3))
    assert result.counts["run"]["tied passages"] == 3
    renamed = {"q": [("a", 1.0), ("z", 1.0), ("c", 1.0)]}
    assert one({"q": {"z": 1.0}}, renamed, "MRR@10", "nDCG@10", "P@1") == [1.0, 1.0, 1.0]


def test_renaming_that_keeps_the_order_changes_nothing():
    qrels, run = random_world(5)
    new = {f"d{i}": f"passage-{name}" for i, name in enumerate(sorted(f"{i:03d}" for i in range(60)))}
    # Same relative order of ids: rename along the sorted ids.
    new = dict(zip(sorted(f"d{i}" for i in range(60)), sorted(new.values()), strict=True))
    other_qrels = {q: {new[p]: g for p, g in grades.items()} for q, grades in qrels.items()}
    other_run = Run({q: [(new[p], s) for p, s in pairs] for q, pairs in run.items()})
    assert evaluate(qrels, run, MEASURES).per_query == evaluate(other_qrels, other_run, MEASURES).per_query


def test_missing_counts_zero_unjudged_is_ignored_and_both_are_counted():
    qrels = {"q1": {"a": 1.0}, "q2": {"b": 1.0}}
    result = evaluate(qrels, Run({"q1": [("a", 1.0)], "q9": [("a", 1.0)]}), ["MRR@10"])
    assert result.mean("run", "MRR@10") == 0.5
    assert result.per_query["run"]["MRR@10"] == {"q1": 1.0, "q2": 0.0}
    assert result.coverage("run") == "scored 2 = 1 answered + 1 missing; 1 unjudged"
    json.dumps(result.as_dict(), allow_nan=False)


def test_empty_list_counts_zero():
    qrels = {"q1": {"a": 1.0}, "q2": {"b": 1.0}}
    result = evaluate(qrels, Run({"q1": [("a", 1.0)], "q2": []}), MEASURES)
    assert result.mean("run", "MRR@10") == 0.5
    assert result.mean("run", "nDCG@10") == 0.5
    assert result.coverage("run") == "scored 2 = 2 answered (1 with an empty list) + 0 missing; 0 unjudged"


def test_a_run_of_empty_lists_scores_zero_not_nothing():
    result = evaluate({"q1": {"a": 1.0}, "q2": {"b": 1.0}}, Run({"q1": []}), MEASURES)
    assert all(result.mean("run", measure) == 0.0 for measure in MEASURES)
    assert all(len(result.values("run", measure)) == 2 for measure in MEASURES)


def test_only_answered_must_be_asked_for_and_compares_common_queries():
    qrels = {"q1": {"a": 1.0}, "q2": {"b": 1.0}}
    runs = {"x": Run({"q1": [("a", 1.0)]}), "y": Run({"q1": [("c", 1.0)], "q2": [("b", 1.0)]})}
    result = evaluate(qrels, runs, ["MRR@10"], only_answered=True)
    assert result.mean("x", "MRR@10") == 1.0
    assert result.coverage("x").startswith("scored 1 = 1 answered + 0 missing")
    assert result.counts["x"]["missing or empty, left out as asked"] == 1
    assert result.compare("x", "y")["MRR@10"].n == 1
    assert evaluate(qrels, runs, ["MRR@10"]).compare("x", "y")["MRR@10"].n == 2


def test_only_answered_leaves_empty_lists_out_too():
    qrels = {"q1": {"a": 1.0}, "q2": {"b": 1.0}, "q3": {"c": 1.0}}
    result = evaluate(qrels, Run({"q1": [("x", 2.0), ("a", 1.0)], "q2": []}), ["MRR@10"], only_answered=True)
    assert result.values("run", "MRR@10") == {"q1": 0.5}
    assert (
        result.coverage("run") == "scored 1 = 1 answered + 0 missing; 0 unjudged; 2 missing or empty, left out as asked"
    )


@pytest.mark.parametrize("grade", [0, -1, math.nan, math.inf])
def test_a_grade_that_makes_everything_relevant_is_refused(grade):
    with pytest.raises(ConfigError, match="relevant_from"):
        evaluate({"q1": {"a": 0.0, "b": 1.0}}, Run({"q1": [("a", 1.0)]}), ["P@1"], relevant_from=grade)


@pytest.mark.parametrize("options", [{"gamma": math.nan}, {"gamma": -0.1}, {"unjudged": "xyz"}])
def test_options_of_udcg_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        evaluate({"q1": {"a": 1.0}}, Run({"q1": [("a", 1.0)]}), ["UDCG@5"], utilities={"q1": {"a": 0.5}}, **options)


def test_a_table_says_what_udcg_reads():
    run = Run({"q1": [("a", 2.0), ("b", 1.0)]})
    given = {"utilities": {"q1": {"a": 5.0, "b": 0.5}}, "utility_name": "abstention", "unjudged": "skip"}
    result = evaluate({"q1": {"a": 1.0}}, run, ["UDCG@5"], **given)
    assert result.notes == [
        "UDCG: u is abstention, relevant from grade 1 of the judgements, γ 0.333, passages without a judgement left "
        "out; 1 utilities lie outside [0, 1], where it is no UDCG"
    ]
    assert "u is abstention" in render_table(result.table("x"))


def test_distraction_by_hand():
    qrels = {"q1": {"a": 1.0, "b": 0.0}, "q2": {"a": 1.0}, "q3": {"a": 1.0}, "q4": {"a": 1.0}}
    utilities = {"q1": {"a": 0.9, "b": 0.85, "c": 0.4}, "q2": {"a": 0.95, "d": 0.8}}
    run = Run({"q1": [("a", 3.0), ("b", 2.0), ("c", 1.0)], "q2": [("a", 3.0), ("d", 2.0), ("x", 1.0)], "q3": []})
    measures = ["distraction@3", "hardDistractors@3", "distraction@1"]
    result = evaluate(qrels, run, measures, utilities=utilities)
    # q2: u of exactly .8 is not above it; x has no utility and stays in k.
    assert result.values("run", "distraction@3") == pytest.approx({"q1": 1.25 / 3, "q2": 0.8 / 3, "q3": 0, "q4": 0})
    assert result.values("run", "hardDistractors@3") == pytest.approx({"q1": 1 / 3, "q2": 0, "q3": 0, "q4": 0})
    assert set(result.values("run", "distraction@1").values()) == {0.0}
    assert "distraction@3, hardDistractors@3, distraction@1: less is better" in result.notes[-1]
    skipped = evaluate(qrels, run, ["distraction@3"], utilities=utilities, unjudged="skip")
    assert skipped.values("run", "distraction@3") == pytest.approx({"q1": 0.85 / 3, "q2": 0, "q3": 0, "q4": 0})


def test_no_overlap_is_refused_and_names_both_sides():
    with pytest.raises(DataError, match=r"holds q-1, the judgements q1"):
        evaluate({"q1": {"a": 1.0}}, Run({"q-1": [("a", 1.0)]}), ["MRR@10"])
    with pytest.raises(DataError, match="no judgements"):
        evaluate({}, Run({"q": [("a", 1.0)]}), ["MRR@10"])


def test_retyped_passage_ids_are_warned_about(capsys):
    assert one({"q": {"007": 1.0}}, {"q": [("7", 1.0)]}, "MRR@10") == [0.0]
    assert "no judged passage" in capsys.readouterr().err


def test_nan_scores_do_not_win(capsys):
    run = {"q": [("a", float("nan")), ("b", 0.9), ("c", 0.1)]}
    result = evaluate({"q": {"a": 1.0}}, Run(run), ["RR"])
    assert result.mean("run", "RR") == pytest.approx(1 / 3)
    assert evaluate({"q": {"b": 1.0}}, Run(run), ["RR"]).mean("run", "RR") == 1.0
    assert result.counts["run"]["non-finite scores"] == 1
    assert "not finite" in capsys.readouterr().err


def test_fractional_gains():
    qrels = {"q": {"a": 0.7, "b": -0.4, "c": 0.0}}
    run = {"q": [("b", 3.0), ("a", 2.0), ("c", 1.0)]}
    assert one(qrels, run, "nDCG@10") == pytest.approx([1 / math.log2(3)])
    with pytest.raises(ConfigError, match="relevant_from"):
        one(qrels, run, "nDCG@10", "MRR@10")
    assert one(qrels, run, "MRR@10", "P@2", relevant_from=0.5) == [0.5, 0.5]


@pytest.mark.parametrize("grades", [{"a": 0.0, "b": 0.0}, {"a": -1.0, "b": -2.0}])
def test_query_without_positive_gain_leaves_ndcg_and_counts_zero_elsewhere(grades):
    qrels = {"q": grades, "r": {"a": 1.0}}
    run = Run({"q": [("a", 1.0)], "r": [("a", 1.0)]})
    result = evaluate(qrels, run, ["nDCG@10", "MRR@10", "P@1", "AP", "R@1"])
    assert result.per_query["run"]["nDCG@10"] == {"r": 1.0}
    assert result.per_query["run"]["MRR@10"] == {"q": 0.0, "r": 1.0}
    assert all(result.mean("run", name) == 0.5 for name in ("MRR@10", "P@1", "AP", "R@1"))
    assert result.counts["run"]["without a positive grade (not in nDCG)"] == 1


def test_only_queries_without_positive_gain_leave_no_mean():
    result = evaluate({"q": {"a": 0.0}}, Run({"q": [("a", 1.0)]}), ["nDCG@10"])
    assert result.mean("run", "nDCG@10") is None
    json.dumps(result.as_dict(), allow_nan=False)


def test_negative_integer_grades_are_not_relevant():
    assert one({"q": {"a": -1.0, "b": 1.0}}, {"q": [("a", 2.0), ("b", 1.0)]}, "MRR@10", "nDCG@10") == pytest.approx(
        [0.5, 1 / math.log2(3)]
    )


def test_cutoff_beyond_the_list():
    assert one(
        {"q": {"a": 1.0}}, {"q": [("a", 2.0), ("b", 1.0)]}, "MRR@10", "nDCG@10", "R@10", "P@10"
    ) == pytest.approx([1.0, 1.0, 1.0, 0.1])


def test_grade_that_is_not_finite_is_refused():
    with pytest.raises(DataError, match=r"query 'q', passage 'a' is nan"):
        one({"q": {"a": float("nan")}}, {"q": [("a", 1.0)]}, "nDCG@10")


def test_scores_in_disguise_as_grades_do_not_exhaust_memory():
    assert one({"q": {"a": 4e9, "b": 2e9}}, {"q": [("b", 2.0), ("a", 1.0)]}, "nDCG@10") == pytest.approx(
        [(2 + 4 / math.log2(3)) / (4 + 2 / math.log2(3))]
    )


def test_fractional_ndcg_equals_pytrec_eval_on_integers():
    qrels, run = random_world(3)
    expected = evaluate(qrels, run, ["nDCG@10", "nDCG"]).per_query["run"]
    for query_id, pairs in run.items():
        if query_id not in qrels:
            continue
        order = [pid for pid, _ in sorted(pairs, key=lambda pair: (pair[1], pair[0]), reverse=True)]
        assert fractional_ndcg(order, qrels[query_id], 10) == pytest.approx(expected["nDCG@10"][query_id], abs=1e-9)
        assert fractional_ndcg(order, qrels[query_id]) == pytest.approx(expected["nDCG"][query_id], abs=1e-9)
    with pytest.raises(ValueError, match="undefined"):
        fractional_ndcg(["a"], {"a": -1.0})


def test_run_is_left_alone():
    run = Run({"q": [("a", 1.0), ("b", 1.0)]})
    evaluate({"q": {"b": 1.0}}, run, MEASURES)
    assert run == {"q": [("a", 1.0), ("b", 1.0)]}


def dataset():
    return Dataset(
        corpus=[Passage("a", "x"), Passage("b", "y")],
        queries=[Query("q1", "?", answers=("Paris",)), Query("q2", "?", answers=("Rome",)), Query("q3", "?")],
        qrels={"q1": {"a": 1.0}, "q2": {"b": 1.0}, "other": {"a": 1.0}},
    )


def test_dataset_restricts_the_judgements_to_its_queries():
    result = evaluate(dataset(), {"s": Run({"q1": [("a", 1.0)]})}, ["MRR@10"])
    assert result.mean("s", "MRR@10") == 0.5
    assert result.counts["s"]["judged queries outside the data set"] == 1


def test_answers_and_retrieval_in_one_evaluation():
    answers = {
        "s": [Answer("q1", ("a",), "It is Paris.", False, -0.1), Answer("q3", (), "NO-RESPONSE", True, None)],
        "closed": [Answer("q1", (), "", False, None), Answer("q2", (), "Rome", False, None)],
    }
    runs = {"s": Run({"q1": [("a", 1.0)]})}
    result = evaluate(dataset(), runs, ["MRR@10", "contains", "EM", "F1"], answers=answers)
    assert result.means()["s"] == {"MRR@10": 0.5, "contains": 0.5, "EM": 0.0, "F1": 0.25}
    assert result.means()["closed"] == {"contains": 0.5, "EM": 0.5, "F1": 0.5}
    counts = result.counts["s"]
    assert (counts["answers scored"], counts["answers missing"], counts["queries without a gold answer"]) == (2, 1, 1)
    assert result.counts["closed"]["answers empty"] == 1


def test_a_table_of_answers_says_which_it_is_over():
    answers = {"s": [Answer("q1", (), "NO-RESPONSE", True, None), Answer("zz", (), "x", False, None)]}
    result = evaluate(dataset(), {"s": Run({"q1": [("a", 1.0)]})}, ["contains"], answers=answers)
    assert "Answers: scored 2 = 1 given + 1 missing; 1 abstained; 1 to other queries." in render_table(
        result.table("x")
    )


def test_measures_whose_data_are_missing_are_refused_all_at_once():
    with pytest.raises(ConfigError) as caught:
        evaluate({"q": {"a": 1.0}}, Run({"q": [("a", 1.0)]}), ["UDCG@5", "EM"])
    assert "utilities=" in str(caught.value)
    assert "answers=" in str(caught.value)


def test_udcg_in_evaluate_from_a_table_and_from_labels(capsys):
    runs = {"s": Run({"q1": [("b", 2.0), ("a", 1.0)]})}
    table = {"q1": {"a": 0.9, "b": 0.3}}
    result = evaluate(dataset(), runs, ["rawUDCG@5", "UDCG@5"], utilities=table)
    assert result.per_query["s"]["rawUDCG@5"] == pytest.approx({"q1": (0.9 - 0.1) / 2, "q2": 0.0})
    rows = [UtilityLabel("q1", (p,), u, "ok", "abstention@00000000") for p, u in table["q1"].items()]
    labels = evaluate(dataset(), runs, ["rawUDCG@5", "UDCG@5"], utilities=Labels(rows))
    assert labels.per_query == result.per_query
    part = evaluate(dataset(), runs, ["UDCG@5"], utilities={"q1": {"a": 0.9}})
    assert part.counts["s"]["without utility in UDCG@5"] == 1
    assert "have no utility" in capsys.readouterr().err
    with pytest.raises(DataError, match="none of its 2 passages"):
        evaluate(dataset(), runs, ["UDCG@5"], utilities={"q7": {"a": 0.9}})


def test_unknown_system_or_measure_names_what_there_is():
    result = evaluate({"q": {"a": 1.0}}, Run({"q": [("a", 1.0)]}), ["MRR@10"])
    with pytest.raises(ConfigError, match="evaluated were: run"):
        result.compare("run", "nope")
    with pytest.raises(ConfigError, match=r"it was by: MRR@10"):
        result.mean("run", "AP")
    with pytest.raises(ConfigError, match="map a system name"):
        evaluate({"q": {"a": 1.0}}, {"q": [("a", 1.0)]}, ["MRR@10"])


def test_largest_changes():
    qrels = {f"q{i}": {"a": 1.0} for i in range(4)}
    first = Run({f"q{i}": [("a", 1.0)] for i in range(4)})
    second = Run({"q0": [("a", 1.0)], "q1": [("b", 2.0), ("a", 1.0)], "q2": [("b", 1.0)], "q3": [("a", 1.0)]})
    changes = evaluate(qrels, {"x": first, "y": second}, ["RR"]).changes("x", "y", "RR")
    assert [(change.query_id, change.before, change.after) for change in changes] == [("q2", 1, 0), ("q1", 1, 0.5)]
