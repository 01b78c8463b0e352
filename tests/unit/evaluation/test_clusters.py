"""Whole conversations: the bootstrap draws them, the test flips them."""

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation import (
    Evaluation,
    Row,
    Table,
    bootstrap_interval,
    find_clusters,
    latex_table,
    markdown_table,
    randomisation_p,
    render_table,
    significance,
    significance_family,
)
from utilitune.records import Query, Turn


def values(*numbers):
    return {f"q{i:03d}": float(number) for i, number in enumerate(numbers)}


def alone(given):
    return {query_id: f"only {query_id}" for query_id in given}


def by(given, size):
    return {query_id: f"c{i // size}" for i, query_id in enumerate(given)}


def test_one_turn_a_cluster_gives_todays_numbers():
    rng = np.random.default_rng(0)
    pairs = [(values(*rng.random(60)), values(*rng.random(60))) for _ in range(3)] + [
        (values(*rng.random(9)), values(*rng.random(9)))
    ]
    plain = significance_family(pairs)
    clustered = significance_family(pairs, clusters=alone(pairs[0][0]))
    assert [each.clusters for each in clustered] == [60, 60, 60, 9]
    assert [replace(each, clusters=None) for each in clustered] == plain
    assert bootstrap_interval(pairs[0][0]) == bootstrap_interval(list(pairs[0][0].values()))


def test_a_tiny_case_by_hand_and_by_enumeration():
    """Sums of the three conversations: .5 + .3 = .8, -.2, .4 - .1 = .3; all 8 patterns of signs."""
    differences = dict(zip(("a1", "a2", "b1", "c1", "c2"), (0.5, 0.3, -0.2, 0.4, -0.1), strict=True))
    clusters = {query_id: query_id[0] for query_id in differences}
    sums = [0.8, -0.2, 0.3]
    reached = [
        abs(sum(s * d for s, d in zip(signs, sums, strict=True))) for signs in itertools.product((1, -1), repeat=3)
    ]
    # .9 of all; 1.3 with b flipped; .3 and .7 with c: two of four reach .9, each with its mirror.
    assert sum(each >= 0.9 - 1e-12 for each in reached) == 4
    assert randomisation_p(differences, clusters=clusters) == 0.5
    found = significance(dict.fromkeys(differences, 0.0), differences, clusters=clusters)
    assert (found.p, found.n, found.clusters) == (0.5, 5, 3)
    assert found.difference == pytest.approx(0.9 / 5)
    assert (found.wins, found.losses, found.ties) == (3, 2, 0)
    # By queries it would be another number.
    assert randomisation_p(differences) != 0.5


def test_the_interval_draws_whole_conversations():
    """Two conversations of one and of three turns: four equally likely draws, with the means 0, 1, 3/4 and 3/4."""
    given = {"a1": 0.0, "b1": 1.0, "b2": 1.0, "b3": 1.0}
    clusters = {query_id: query_id[0] for query_id in given}
    assert bootstrap_interval(given, clusters=clusters) == (0.0, 1.0)
    low, high = bootstrap_interval(given, clusters=clusters, confidence=0.4)
    assert (low, high) == (0.75, 0.75)


def test_repeated_turns_do_not_narrow_the_interval():
    rng = np.random.default_rng(1)
    once = values(*rng.normal(0.2, 1.0, 40))
    many = {f"{query_id}-{copy}": value for query_id, value in once.items() for copy in range(5)}
    clusters = {query_id: query_id.partition("-")[0] for query_id in many}
    assert bootstrap_interval(many, clusters=clusters) == pytest.approx(bootstrap_interval(once), abs=1e-12)
    assert randomisation_p(many, clusters=clusters) == randomisation_p(once)
    low, high = bootstrap_interval(many)
    wide = bootstrap_interval(once)
    assert high - low < 0.6 * (wide[1] - wide[0])
    assert randomisation_p(many) < randomisation_p(once)


def test_p_is_uniform_over_clusters_where_turns_alone_would_claim_too_much():
    """Nothing is there but a shift that turns of a conversation share."""
    rng = np.random.default_rng(2)
    honest = naive = 0
    for seed in range(200):
        shifts = np.repeat(rng.normal(0, 1, 20), 5) + rng.normal(0, 0.3, 100)
        given = values(*shifts)
        honest += randomisation_p(given, clusters=by(given, 5), resamples=400, seed=seed) <= 0.05
        naive += randomisation_p(given, resamples=400, seed=seed) <= 0.05
    # 99.9 % band of a binomial(200, .05) is 2..22.
    assert 2 <= honest <= 22
    assert naive > 50


def test_one_cluster_says_nothing():
    given = values(0.1, 0.4, 0.3)
    found = significance(dict.fromkeys(given, 0.0), given, clusters=by(given, 3))
    assert (found.low, found.high, found.p, found.clusters) == (None, None, 1.0, 1)


def test_conversations_whose_turns_cancel_count_as_no_difference():
    given = {"a1": 0.1, "a2": 0.2, "a3": -0.3, "b1": 0.5}
    assert randomisation_p(given, clusters={query_id: query_id[0] for query_id in given}) == 1.0


def test_a_query_without_a_cluster_and_a_plain_list_are_refused():
    given = values(0.1, 0.2)
    with pytest.raises(DataError, match=r"1 scored queries have no cluster \(such as 'q001'\).*--cluster-by query"):
        significance(given, given, clusters={"q000": "c"})
    with pytest.raises(DataError, match=r"give \{query_id: value\}"):
        bootstrap_interval([0.1, 0.2], clusters=alone(given))


def test_finding_clusters():
    history = (Turn("user", "hello"),)
    turns = [Query("c1_1", "a"), Query("c1_2", "b", history), Query("c2_2", "c", history)]
    assert find_clusters(turns) == {"c1_1": "c1", "c1_2": "c1", "c2_2": "c2"}
    assert find_clusters(turns, "query") is None
    alike = [Query("test_1", "a"), Query("test_2", "b")]
    assert find_clusters(alike) is None
    assert find_clusters(alike, "conversation") == {"test_1": "test", "test_2": "test"}
    named = [Query("1", "a", metadata={"conversation": 7}), Query("2", "b", metadata={"conversation": 7})]
    assert find_clusters(named) == {"1": "7", "2": "7"}
    # Readers name the conversation of questions that only look like turns of one: each its own.
    lone = [Query(query.id, query.text, metadata={"conversation": query.id}) for query in alike]
    assert find_clusters(lone) is None and len(find_clusters(lone, "conversation")) == 2
    with pytest.raises(ConfigError, match="known: conversation, query"):
        find_clusters(turns, "topic")


def test_a_table_says_over_how_many_conversations():
    rng = np.random.default_rng(3)
    before, after = values(*rng.random(30)), values(*rng.random(30))
    rows = [Row("a", {"X": before}), Row("b", {"X": after})]
    plain = Table("T", ["X"], rows, before="a")
    table = replace(plain, clusters=by(before, 3))
    change = table.cells()["", "b", "X"].change
    assert replace(change, p_holm=None) == significance(before, after, clusters=by(before, 3))
    assert table.as_dict()["clusters"] == {"name": "conversation", "n": 10}
    for text in (render_table(table), markdown_table(table), latex_table(table)):
        assert "bootstrap interval over 10 whole conversations" in text
        assert "(whole conversations flipped)" in text
    assert "over queries" in render_table(plain) and plain.as_dict()["clusters"] is None


def test_an_evaluation_hands_its_clusters_on():
    rng = np.random.default_rng(4)
    before, after = values(*rng.random(20)), values(*rng.random(20))
    clusters = by(before, 4)
    found = Evaluation(["X"], {"a": {"X": before}, "b": {"X": after}}, clusters=clusters)
    assert replace(found.compare("a", "b")["X"], p_holm=None) == significance(before, after, clusters=clusters)
    assert found.interval("a", "X") == bootstrap_interval(before, clusters=clusters)
    assert found.table(before="a").clusters == clusters


def test_twenty_measures_of_a_thousand_clustered_turns_in_ten_seconds():
    rng = np.random.default_rng(0)
    pairs = [(values(*rng.random(1000)), values(*rng.random(1000))) for _ in range(20)]
    start = time.process_time()
    significance_family(pairs, clusters=by(pairs[0][0], 2))
    assert time.process_time() - start < 10
