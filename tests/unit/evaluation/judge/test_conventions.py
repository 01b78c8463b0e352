"""Hand-worked tallies: five questions, a against b."""

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.judge import Judgement, tally
from utilitune.evaluation.judge.interval import ratio_interval, sign_test, wilson


def pair(query_id, ab, ba, p_ab=None, p_ba=None):
    """Verdicts of both orders; ``None`` is a reply without a verdict."""
    return [
        Judgement(query_id, "a", "b", order, "Overall", verdict, "ok" if verdict else "unparsed", p_a=p)
        for order, verdict, p in (("ab", ab, p_ab), ("ba", ba, p_ba))
    ]


FIVE = [
    *pair("1", "a", "a"),  # a in both orders
    *pair("2", "a", "b"),  # the answer shown first, both times: split
    *pair("3", "b", "b"),
    *pair("4", "tie", "a"),  # declared once
    *pair("5", None, "a"),  # one order without a verdict
]


def test_strict():
    (each,) = tally(FIVE)
    rate = each.rate("strict")
    # Questions 1-4 have both orders: a, tie, b, tie.
    assert (rate.questions, rate.units, rate.wins, rate.losses, rate.ties) == (4, 4, 1, 1, 2)
    assert rate.win_rate == 0.25 and rate.loss_rate == 0.25
    assert rate.p == 1.0


def test_hirag_is_wins_over_parsed():
    (each,) = tally(FIVE)
    rate = each.rate("hirag")
    # Nine parsed: a wins 1, 1, 2, 4 (in "ba") and 5; b wins 2, 3, 3; one tie.
    assert (rate.units, rate.wins, rate.losses, rate.ties) == (9, 5, 3, 1)
    assert rate.win_rate == pytest.approx(5 / 9)
    assert rate.wilson is None  # two judgements of a question are not independent


def test_a_split_pair_is_half_a_win_each_by_hirag_and_a_tie_by_strict():
    (each,) = tally(pair("2", "a", "b"))
    assert each.rate("hirag").win_rate == each.rate("hirag").loss_rate == 0.5
    assert each.rate("strict").ties == 1


def test_debiased_averages_both_orders():
    judgements = [
        *pair("1", "a", "b", 0.9, 0.3),  # mean .6: a
        *pair("2", "a", "b", 0.8, 0.1),  # mean .45: b
        *pair("3", "a", "b", 0.7, 1 - 0.7),  # exactly even
        *pair("4", "a", None, 0.9, None),  # one order only
    ]
    (each,) = tally(judgements)
    rate = each.rate("debiased")
    assert (rate.units, rate.wins, rate.losses, rate.ties) == (3, 1, 1, 1)
    assert each.rate("strict").ties == 3


def test_consistency_and_position():
    (each,) = tally(FIVE)
    assert each.consistent() == (2, 4)
    # Decided: 1 ab a (first), 1 ba a (second), 2 ab a (first), 2 ba b (first), 3 ab b (second), 3 ba b (first),
    # 4 ba a (second), 5 ba a (second).
    assert each.first_position() == (4, 8)
    assert each.counts() == {
        "judgements": 10,
        "ok": 9,
        "unparsed": 1,
        "failed": 0,
        "tied": 1,
        "asked again": 0,
        "truncated": 0,
    }
    assert "only 2 of 4 pairs (50%)" in each.warning()


def test_no_warning_from_sixty_percent_on():
    three_of_five = [*pair("1", "a", "a"), *pair("2", "b", "b"), *pair("3", "tie", "tie")]
    three_of_five += [*pair("4", "a", "b"), *pair("5", "a", "b")]
    assert tally(three_of_five)[0].warning() is None


def test_swapping_the_systems_swaps_wins_and_losses():
    other = {"a": "b", "b": "a", "tie": "tie", None: None}
    swapped = [Judgement(j.query_id, "b", "a", j.order[::-1], j.dimension, other[j.verdict], j.status) for j in FIVE]
    (one,), (two,) = tally(FIVE), tally(swapped)
    for name in ("strict", "hirag"):
        mine, theirs = one.rate(name), two.rate(name)
        assert (mine.wins, mine.losses, mine.units) == (theirs.losses, theirs.wins, theirs.units)
    assert one.consistent() == two.consistent() and one.first_position() == two.first_position()


def test_nothing_parsed():
    (each,) = tally(pair("1", None, None))
    for name in ("strict", "hirag", "debiased"):
        rate = each.rate(name)
        assert rate.win_rate is None and rate.interval is None and rate.wilson is None and rate.p == 1.0
    assert each.warning() is None


def test_one_order_judged_twice_is_refused():
    with pytest.raises(DataError, match="'1' has two judgements"):
        tally([*pair("1", "a", "a"), *pair("1", "b", "b")])
    with pytest.raises(ConfigError, match="known: strict, hirag, debiased"):
        tally(FIVE)[0].rate("mean")


def test_wilson_by_its_formula():
    z, n, k = 1.959963984540054, 40, 13
    p = k / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    assert wilson(k, n) == pytest.approx((centre - half, centre + half))
    assert wilson(0, 0) is None and wilson(0, 5)[0] == 0 and wilson(5, 5)[1] == 1
    with pytest.raises(ConfigError):
        wilson(1, 2, 1.5)


def test_bootstrap_draws_questions_whole():
    # Ten questions, each split: whatever is drawn, the rate is one half.
    assert ratio_interval([1] * 10, [2] * 10) == (0.5, 0.5)
    low, high = ratio_interval([2, 0] * 50, [2] * 100)
    # As wide as for 100 yes-or-no outcomes, not for 200.
    assert high - low == pytest.approx(2 * 1.96 * 0.05, abs=0.02)
    assert ratio_interval([1], [1]) is None
    assert ratio_interval([1, 0, 1], [1, 1, 1], seed=4) == ratio_interval([1, 0, 1], [1, 1, 1], seed=4)


def test_sign_test_by_hand():
    assert sign_test(3, 0) == pytest.approx(2 / 8)
    assert sign_test(0, 0) == 1.0
    assert sign_test(1, 4) == pytest.approx(2 * (1 + 5) / 32)
