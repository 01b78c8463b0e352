"""Expected values over ties, beside the plain measures averaged over every order of equal scores."""

import itertools
import random
from statistics import fmean

import pytest

from utilitune.errors import ConfigError
from utilitune.evaluation import evaluate, render_table
from utilitune.records import Run

NAMES = [
    *("RR", "MRR@2", "nDCG", "nDCG@3", "R@1", "R@4", "P@1", "P@3", "P@9", "Success@1", "Success@3", "AP", "AP@3"),
]


def orders(scored):
    """Yield every order of equal scores, as a run without ties."""
    groups = {}
    for passage_id, score in scored:
        groups.setdefault(score, []).append(passage_id)
    best_first = [groups[score] for score in sorted(groups, reverse=True)]
    for order in itertools.product(*(itertools.permutations(group) for group in best_first)):
        ids = [passage_id for group in order for passage_id in group]
        yield [(passage_id, float(-rank)) for rank, passage_id in enumerate(ids)]


def enumerated(grades, scored, **options):
    every = [evaluate({"q": grades}, Run({"q": order}), NAMES, **options).means()["run"] for order in orders(scored)]
    return {name: fmean(each[name] for each in every) for name in NAMES}


CASES = [
    ([3.0, 2.0, 2.0, 2.0, 1.0], {"b": 1.0}),
    ([2.0, 2.0, 2.0, 1.0, 1.0], {"a": 1.0, "d": 2.0, "e": 1.0}),
    ([1.0] * 5, {"a": 1.0, "b": 3.0, "x": 1.0}),
    ([1.0] * 5, {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0, "e": 1.0}),
    ([5.0, 4.0, 3.0, 2.0, 1.0], {"c": 2.0, "e": 1.0}),
    ([1.0, 1.0, 0.5, 0.5, 0.5], {"y": 1.0}),
]


@pytest.mark.parametrize(("scores", "grades"), CASES)
def test_equal_to_the_mean_over_all_orders(scores, grades):
    scored = list(zip("abcde", scores, strict=True))
    found = evaluate({"q": grades}, Run({"q": scored}), NAMES, ties="expected").means()["run"]
    assert found == pytest.approx(enumerated(grades, scored), abs=1e-12)


def test_random_rankings_with_fractional_and_negative_grades():
    rng = random.Random(5)
    for _ in range(25):
        scored = [(passage_id, float(rng.randrange(3))) for passage_id in "abcdef"]
        grades = {passage_id: rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0]) for passage_id in "abdfgh"} | {"c": 1.0}
        found = evaluate({"q": grades}, Run({"q": scored}), NAMES, ties="expected", relevant_from=0.5).means()["run"]
        assert found == pytest.approx(enumerated(grades, scored, relevant_from=0.5), abs=1e-12)


def test_by_hand():
    """One relevant passage among three that tie: 1, 1/2, 1/3, each a third of the time."""
    run = Run({"q": [("a", 1.0), ("b", 1.0), ("c", 1.0)]})
    found = evaluate({"q": {"b": 1.0}}, run, ["RR", "P@1", "R@2", "Success@2"], ties="expected").means()["run"]
    assert found == pytest.approx({"RR": (1 + 1 / 2 + 1 / 3) / 3, "P@1": 1 / 3, "R@2": 2 / 3, "Success@2": 2 / 3})


def test_a_constant_scorer_is_as_good_as_chance_whatever_the_names():
    """trec_eval's rule gives 1 or 1/100 to the same run, by the name of the relevant passage."""
    ids = [f"d{i:02d}" for i in range(100)]
    run = Run({"q": [(passage_id, 1.0) for passage_id in ids]})
    chance = sum(1 / rank for rank in range(1, 101)) / 100
    for named in ("d00", "d57", "d99"):
        result = evaluate({"q": {named: 1.0}}, run, ["RR"], ties="expected")
        assert result.mean("run", "RR") == pytest.approx(chance)
        assert result.counts["run"]["tied passages"] == 100
    plain = [evaluate({"q": {named: 1.0}}, run, ["RR"]).mean("run", "RR") for named in ("d99", "d00")]
    assert plain == [1.0, pytest.approx(0.01)]


def test_the_rest_of_the_contract_is_the_same():
    qrels = {"q1": {"a": 1.0}, "q2": {"b": 1.0}, "q3": {"c": 0.0}, "q4": {"d": 1.0}}
    run = Run({"q1": [("x", 2.0), ("a", 1.0), ("x", 0.5)], "q2": [], "q9": [("a", 1.0)], "q4": [("d", float("nan"))]})
    names = ["RR", "nDCG@10", "P@10", "AP"]
    found, plain = (evaluate(qrels, run, names, ties=ties) for ties in ("expected", "trec"))
    assert found.per_query["run"] == {
        name: pytest.approx(own, abs=1e-12) for name, own in plain.per_query["run"].items()
    }
    assert found.counts == plain.counts


def test_scores_that_are_not_finite_tie_at_the_end():
    run = Run({"q": [("a", float("nan")), ("b", float("inf")), ("c", 1.0)]})
    found = evaluate({"q": {"a": 1.0}}, run, ["RR"], ties="expected")
    assert found.mean("run", "RR") == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_a_table_says_so_and_measures_without_a_closed_form_are_refused():
    run = {"q": [("a", 1.0), ("b", 1.0)]}
    result = evaluate({"q": {"a": 1.0}}, Run(run), ["RR"], ties="expected")
    assert "mean over all orders of equal scores" in render_table(result.table())
    assert "Ties" not in render_table(evaluate({"q": {"a": 1.0}}, Run(run), ["RR"]).table())
    with pytest.raises(ConfigError, match="no closed form for UDCG@5; known: RR, nDCG, R, P, Success, AP"):
        evaluate({"q": {"a": 1.0}}, Run(run), ["RR", "UDCG@5"], utilities={"q": {"a": 0.5}}, ties="expected")
    with pytest.raises(ConfigError, match="known: trec, expected"):
        evaluate({"q": {"a": 1.0}}, Run(run), ["RR"], ties="worst")
