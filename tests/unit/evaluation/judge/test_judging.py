"""Asking a judge: order swap, re-asking, resuming, failures by id."""

import json
from math import exp

import pytest
from fake_judge import FakeJudge

from utilitune.errors import ConfigError, DataError, ThresholdError
from utilitune.evaluation import win_rate
from utilitune.evaluation.judge import (
    Comparison,
    compare_systems,
    count_judgements,
    judge_pairs,
    read_judgements,
    render_win_rates,
    tally,
    write_judgements,
)
from utilitune.generator import load_prompt
from utilitune.records import Answer, Query, Turn

PAIRS = [
    Comparison("1", "Why?", "x", "y", "one two three", "one"),
    Comparison("2", "How?", "x", "y", "one", "one two", (Turn("user", "Earlier?"),)),
    Comparison("3", "When?", "x", "y", "same", "same"),
]


def test_both_orders_and_who_stands_where():
    judge = FakeJudge()
    judgements = judge_pairs(PAIRS[:2], judge, dimensions=["Overall"])
    assert [(j.query_id, j.order, j.verdict) for j in judgements] == [
        ("1", "ab", "a"),
        ("1", "ba", "a"),
        ("2", "ab", "b"),
        ("2", "ba", "b"),
    ]
    assert [judge.shown(task.prompt) for task in judge.asked] == [
        ("one two three", "one"),
        ("one", "one two three"),
        ("one", "one two"),
        ("one two", "one"),
    ]
    assert all("Earlier?" in task.prompt.messages[-1][1] for task in judge.asked[2:])
    assert judge.asked[0].prompt.trim == ("one two three", "one")


def test_probabilities_are_of_the_system_and_bias_cancels():
    fair = judge_pairs(PAIRS[:2], FakeJudge(), dimensions=["Overall"])
    assert [j.p_a for j in fair] == pytest.approx([1 / (1 + exp(-2))] * 2 + [1 / (1 + exp(1))] * 2)
    assert [j.mass for j in fair] == pytest.approx([0.9] * 4)
    biased = judge_pairs(PAIRS, FakeJudge(bias=5.0), dimensions=["Overall"])
    (each,) = tally(biased)
    assert each.consistent() == (0, 3) and each.first_position() == (6, 6)
    assert "only 0 of 3 pairs" in each.warning()
    # Every order is won by what stands first, and yet the mean of both finds the longer answer; equal texts tie.
    rate = each.rate("debiased")
    assert (rate.wins, rate.losses, rate.ties) == (1, 1, 1)
    assert each.rate("strict").ties == 3
    assert each.rate("hirag").win_rate == 0.5


def test_every_dimension_has_its_own_prompt_or_shares_one():
    judge = FakeJudge()
    judgements = judge_pairs(PAIRS[:1], judge)
    assert len(judgements) == 8 and len(judge.asked) == 8
    assert len({j.dimension for j in judgements}) == 4
    winners = {"Comprehensiveness": "Answer 1", "Empowerment": "Answer 2", "Diversity": "Tie", "Overall": "Answer 1"}
    judge = FakeJudge(replies=lambda first, second, attempt: json.dumps({n: {"Winner": w} for n, w in winners.items()}))
    judgements = judge_pairs(PAIRS[:1], judge, reading="json")
    assert len(judge.asked) == 2
    assert [(j.order, j.dimension, j.verdict) for j in judgements] == [
        ("ab", "Comprehensiveness", "a"),
        ("ab", "Empowerment", "b"),
        ("ab", "Diversity", "tie"),
        ("ab", "Overall", "a"),
        ("ba", "Comprehensiveness", "b"),
        ("ba", "Empowerment", "a"),
        ("ba", "Diversity", "tie"),
        ("ba", "Overall", "b"),
    ]


def test_a_reply_without_a_verdict_is_asked_again_and_kept_by_id():
    def replies(first, second, attempt):
        if first == "one" and second == "one two":
            return "I cannot say."
        return "A" if attempt == 1 or first != "one" else "hm"

    judgements = judge_pairs(PAIRS[:2], FakeJudge(replies=replies), dimensions=["Overall"], reading="letter")
    assert [(j.query_id, j.order, j.verdict, j.status, j.attempts) for j in judgements] == [
        ("1", "ab", "a", "ok", 1),
        ("1", "ba", "b", "ok", 2),
        ("2", "ab", None, "unparsed", 3),
        ("2", "ba", "b", "ok", 1),
    ]
    assert judgements[2].raw == "I cannot say."
    once = judge_pairs(PAIRS[:2], FakeJudge(replies=replies), dimensions=["Overall"], reading="letter", retries=0)
    assert [j.status for j in once] == ["ok", "unparsed", "unparsed", "ok"]


def test_json_verdicts_once_had_are_kept_when_the_rest_is_asked_again():
    def replies(first, second, attempt):
        if attempt == 0:
            return '{"Diversity": {"Winner": "Answer 1"}, "Overall": {"Winner": "?"}}'
        return '{"Diversity": {"Winner": "Answer 2"}, "Overall": {"Winner": "Answer 2"}}'

    judgements = judge_pairs(PAIRS[:1], FakeJudge(replies=replies), dimensions=["Diversity", "Overall"], reading="json")
    assert [(j.verdict, j.attempts) for j in judgements if j.order == "ab"] == [("a", 1), ("b", 2)]


def test_a_refused_prompt_is_a_failed_row_and_shifts_nothing():
    judgements = judge_pairs(PAIRS, FakeJudge(refuse=("How?",)), dimensions=["Overall"])
    assert [j.query_id for j in judgements] == ["1", "1", "2", "2", "3", "3"]
    assert [j.status for j in judgements] == ["ok", "ok", "failed", "failed", "ok", "ok"]
    assert "prompt too long" in judgements[2].raw and judgements[2].p_a is None
    (each,) = tally(judgements)
    assert each.counts()["failed"] == 2 and each.rate("strict").questions == 2


def test_second_run_is_free_and_a_cut_one_goes_on(tmp_path):
    store = tmp_path / "judge.sqlite"
    first, second, whole = FakeJudge(), FakeJudge(), FakeJudge()
    judge_pairs(PAIRS[:2], first, store=store)
    again = judge_pairs(PAIRS, second, store=store)
    # Equal answers make one prompt for both orders.
    assert len(first.asked) == 16 and len(second.asked) == 4
    assert again == judge_pairs(PAIRS, whole)
    replies = {"letter": FakeJudge(replies=lambda *_: "hm")}
    unread = judge_pairs(PAIRS[:1], replies["letter"], reading="letter", store=store)
    assert judge_pairs(PAIRS[:1], FakeJudge(replies=lambda *_: "A"), reading="letter", store=store) == unread


def test_judgements_survive_their_file(tmp_path):
    judgements = judge_pairs(PAIRS, FakeJudge(refuse=("How?",)))
    for name in ("j.jsonl", "j.jsonl.gz", "j.parquet"):
        assert write_judgements(tmp_path / name, judgements) == 24
        assert read_judgements(tmp_path / name) == judgements


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": "aa"}, "'order' is 'aa'"),
        ({"verdict": "A"}, "'verdict' is 'A'"),
        ({"verdict": None, "status": "ok"}, "expected a verdict exactly where 'ok'"),
        ({"p_a": 1.5}, "expected a probability"),
    ],
)
def test_bad_judgement_rows(tmp_path, change, message):
    row = {"query_id": "1", "system_a": "x", "system_b": "y", "order": "ab", "dimension": "Overall", "verdict": "a"}
    path = tmp_path / "j.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, **change}) + "\n")
    with pytest.raises(DataError, match=rf"j.jsonl:2.*{message}"):
        read_judgements(path)


def test_unknown_names():
    for arguments, message in (
        ({"reading": "guess"}, "known: probability, letter, json"),
        ({"dimensions": ["Beauty"]}, "known: Comprehensiveness"),
        ({"dimensions": []}, "no dimension"),
        ({"retries": -1}, "retries is -1"),
        ({"prompt": "answer"}, "not declared"),
    ):
        with pytest.raises(ConfigError, match=message):
            judge_pairs(PAIRS, FakeJudge(), **arguments)


def answers(**texts):
    return [Answer(query_id[1:], (), text, False, None) for query_id, text in texts.items()]


QUERIES = [Query(str(n), f"question {n}?") for n in range(1, 5)]
SYSTEMS = {
    "long": answers(q1="a b c d", q2="a b c d", q3="a b c", q4="a b c d"),
    "middle": answers(q3="a b", q1="a b", q2="a b", q9="unknown"),
    "short": answers(q1="a", q2="a", q3="a", q4="a"),
}


def test_answers_meet_by_id_and_what_is_missing_is_counted():
    compared = compare_systems(SYSTEMS, QUERIES)
    assert [(c.query_id, c.system_a, c.system_b, c.answer_b) for c in compared.comparisons if c.query_id == "3"] == [
        ("3", "long", "middle", "a b"),
        ("3", "long", "short", "a"),
        ("3", "middle", "short", "a"),
    ]
    assert len(compared.comparisons) == 3 + 4 + 3
    assert compared.missing == {"long": 0, "middle": 1, "short": 0}
    assert compared.unknown == {"long": 0, "middle": 1, "short": 0}
    assert len(compare_systems(SYSTEMS, QUERIES, against="short").comparisons) == 7


def test_comparing_what_cannot_be_compared():
    with pytest.raises(ConfigError, match="two or more"):
        compare_systems({"x": SYSTEMS["long"]}, QUERIES)
    with pytest.raises(ConfigError, match="no system is named 'w'"):
        compare_systems(SYSTEMS, QUERIES, against="w")
    with pytest.raises(DataError, match="no question in common"):
        compare_systems({"x": answers(q1="a"), "y": answers(q2="a")}, QUERIES)
    with pytest.raises(DataError, match="two answers"):
        compare_systems({"x": answers(q1="a") * 2, "y": answers(q1="a")}, QUERIES)


def test_win_rate_of_three_systems(capsys):
    rates = win_rate(SYSTEMS, QUERIES, FakeJudge(), dimensions=["Overall", "Diversity"])
    assert rates.convention == "debiased"
    assert {(t.system_a, t.system_b): t.rate("strict").win_rate for t in rates.tallies} == {
        ("long", "middle"): 1.0,
        ("long", "short"): 1.0,
        ("middle", "short"): 1.0,
    }
    found = rates.strengths()["Overall"]
    assert [row.system for row in found.strengths] == ["long", "middle", "short"] and found.virtual_ties
    text = render_win_rates(rates)
    assert "missing: long 0, middle 1, short 0" in text and "Bradley-Terry" in text and "unparsed 0" in text
    assert "left out of their pairs: middle 1" in capsys.readouterr().err
    json.dumps(rates.as_dict(), allow_nan=False)


def test_win_rate_by_the_published_convention(capsys):
    rates = win_rate(SYSTEMS, QUERIES, FakeJudge(bias=2.5), convention="hirag", dimensions=["Overall"], against="long")
    by_pair = {(t.system_a, t.system_b): t.rate("hirag") for t in rates.tallies}
    # Leads of 2, 2, 1 words against a bias of 2.5: all split, so one half. Leads of 3, 3, 2, 3: one of four is split.
    assert by_pair["long", "middle"].win_rate == 0.5 and by_pair["long", "middle"].units == 6
    assert by_pair["long", "short"].win_rate == 7 / 8 and by_pair["long", "short"].units == 8
    assert "the order of the answers decides more than the answers do" in capsys.readouterr().err
    assert "wins over parsed judgements" in render_win_rates(rates)


def test_too_many_replies_without_a_verdict_stop_it():
    judge = FakeJudge(replies=lambda first, second, attempt: "A" if "b c d" in first else "hm")
    with pytest.raises(ThresholdError, match="without a verdict"):
        win_rate(SYSTEMS, QUERIES, judge, reading="letter")
    rates = win_rate(SYSTEMS, QUERIES, judge, reading="letter", max_lost=1.0)
    assert rates.convention == "strict" and rates.counts["unparsed"] > 0


def test_counting_what_is_not_there():
    with pytest.raises(DataError, match="no judgements"):
        count_judgements([], "strict")
    written = judge_pairs(PAIRS, FakeJudge(), reading="letter")
    with pytest.raises(DataError, match="no judgement has a probability"):
        count_judgements(written, "debiased")


@pytest.mark.parametrize("name", ["verdict", "win-rate"])
def test_prompts_show_both_answers_and_all_criteria(name):
    prompt = load_prompt(name).render(
        question="Why {{ x }}?", candidates=("first text", ""), criteria={"Overall": "as a whole", "Depth": "how deep"}
    )
    for text in (prompt.messages[-1][1], prompt.plain):
        places = [text.rindex(part) for part in ("Why {{ x }}?", "first text", "(empty)", "Overall: as a whole")]
        assert places == sorted(places) and "Depth: how deep" in text
    assert prompt.trim == ("first text",)
