"""Labels to groups: what is merged, dropped, combined, counted."""

from __future__ import annotations

import math

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.records import Dataset, Labels, Passage, Query, Run, Turn, UtilityLabel
from utilitune.rerank import Group, Groups, build_groups, read_groups, write_groups


def row(query, passage, utility, name="information-gain", status="ok", digits="0000aaaa"):
    passages = (passage,) if isinstance(passage, str) else passage
    return UtilityLabel(query, passages, utility, status, f"{name}@{digits}")


def world(*queries, texts=None):
    texts = texts or {f"p{i}": f"text {i}" for i in range(10)}
    made = [query if isinstance(query, Query) else Query(query, f"question {query}") for query in queries]
    return Dataset([Passage(key, text) for key, text in texts.items()], made)


def test_a_group_by_hand():
    labels = Labels([row("q", "p1", -1.0), row("q", "p0", 3.0), row("q", "p2", 1.0)])
    (group,) = build_groups(labels, world("q"))
    assert group.query == "question q"
    assert group.passage_ids == ("p1", "p0", "p2")
    assert group.passages == ("text 1", "text 0", "text 2")
    assert group.utilities == (-1.0, 3.0, 1.0)
    assert group.targets == pytest.approx((0.0, 1.0, 0.5))


def test_several_utilities_are_averaged_as_z_scores():
    labels = Labels(
        [row("q", f"p{i}", value, "a") for i, value in enumerate((0.0, 2.0, 4.0))]
        + [row("q", f"p{i}", value, "b") for i, value in enumerate((300.0, 100.0, 200.0))]
    )
    (group,) = build_groups(labels, world("q"), rescale="none")
    z = 2 / math.sqrt(8 / 3)
    # a: -z 0 z; b: z -z 0
    assert group.utilities == pytest.approx((0.0, -z / 2, z / 2))
    (only_a,) = build_groups(labels, world("q"), utilities=["a"], rescale="none")
    assert only_a.utilities == (0.0, 2.0, 4.0)


def test_a_candidate_without_all_utilities_is_left_out_and_counted():
    labels = Labels(
        [row("q", f"p{i}", float(i), "a") for i in range(3)] + [row("q", f"p{i}", float(i), "b") for i in range(2)]
    )
    groups = build_groups(labels, world("q"))
    assert groups[0].passage_ids == ("p0", "p1")
    assert groups.drops["candidates lacking a utility"] == 1


@pytest.mark.parametrize(
    ("utility", "status", "kind"),
    [
        (None, "failed", "rows failed"),
        (None, "ok", "rows without a number"),
        (math.nan, "ok", "rows not finite"),
        (math.inf, "ok", "rows not finite"),
        (0.9, "invalid", "rows invalid"),
    ],
)
def test_missing_and_non_finite_numbers_are_never_used(utility, status, kind):
    labels = Labels([row("q", "p0", 1.0), row("q", "p1", 0.0), row("q", "p2", utility, status=status)])
    groups = build_groups(labels, world("q"))
    assert groups[0].passage_ids == ("p0", "p1")
    assert groups.drops[kind] == 1


def test_set_labels_are_not_passage_labels():
    labels = Labels([row("q", "p0", 1.0), row("q", "p1", 0.0), row("q", ("p0", "p1"), 9.0)])
    groups = build_groups(labels, world("q"))
    assert groups[0].utilities == (1.0, 0.0)
    assert groups.drops["rows of passage sets"] == 1


def test_same_text_is_one_candidate_with_the_mean_utility():
    texts = {"p0": "the  same\ntext", "p1": "other", "p2": "the same text"}
    labels = Labels([row("q", "p0", 1.0), row("q", "p1", 0.0), row("q", "p2", 0.0)])
    groups = build_groups(labels, world("q", texts=texts))
    assert groups[0].passage_ids == ("p0", "p1")
    assert groups[0].utilities == (0.5, 0.0)
    assert groups.drops["candidates merged, same text"] == 1


def test_queries_without_variance_or_with_one_candidate_are_dropped_and_counted():
    labels = Labels(
        [row("flat", f"p{i}", 0.5) for i in range(4)]
        + [row("noise", "p0", 0.5), row("noise", "p1", 0.5 + 1e-9)]
        + [row("single", "p0", 0.1)]
        + [row("good", "p0", 0.0), row("good", "p1", 1.0)]
    )
    groups = build_groups(labels, world("flat", "noise", "single", "good"))
    assert [group.query_id for group in groups] == ["good"]
    assert groups.drops["queries without variance"] == 2
    assert groups.drops["queries with fewer than 2 candidates"] == 1


def test_small_utilities_are_not_taken_for_noise():
    labels = Labels([row("q", "p0", 1e-7), row("q", "p1", 3e-7)])
    assert build_groups(labels, world("q"))[0].targets == (0.0, 1.0)


def test_no_group_left_is_an_error_that_says_why():
    labels = Labels([row("q", f"p{i}", 0.5) for i in range(4)])
    with pytest.raises(DataError, match="queries without variance: 1"):
        build_groups(labels, world("q"))
    with pytest.raises(DataError, match="empty"):
        build_groups(Labels([]), world("q"))


def test_max_group_and_run_order():
    labels = Labels([row("q", f"p{i}", float(i)) for i in range(5)])
    run = Run({"q": [("p4", 9.0), ("p7", 8.0), ("p0", 7.0), ("p2", 6.0)]})
    groups = build_groups(labels, world("q"), run=run, max_group=2)
    assert groups[0].passage_ids == ("p4", "p0")
    assert groups.drops["candidates not in the run"] == 2
    assert groups.drops["candidates over max_group"] == 1
    with pytest.raises(ConfigError, match="max_group"):
        build_groups(labels, world("q"), max_group=1)


def test_one_utility_labelled_in_two_ways_must_be_told_apart():
    labels = Labels(
        [row("q", f"p{i}", float(i)) for i in range(2)]
        + [row("q", f"p{i}", float(-i), digits="0000bbbb") for i in range(2)]
    )
    with pytest.raises(DataError, match="information-gain@0000bbbb"):
        build_groups(labels, world("q"))
    groups = build_groups(labels, world("q"), utilities=["information-gain@0000bbbb"])
    assert groups[0].utilities == (0.0, -1.0)
    with pytest.raises(DataError, match="no labels of utility 'abstention'"):
        build_groups(labels, world("q"), utilities=["abstention"])


def test_labels_of_another_data_set_are_refused():
    labels = Labels([row("q", "p0", 0.0), row("q", "zzz", 1.0)])
    with pytest.raises(DataError, match="'zzz'"):
        build_groups(labels, world("q"))
    with pytest.raises(DataError, match="'q'"):
        build_groups(labels, world("other"))


def test_title_conversation_and_rewritten_question_reach_the_group():
    query = Query("talk_2", "and him?", history=(Turn("user", "who?"),))
    dataset = Dataset([Passage("a", "body", "Title"), Passage("b", "else")], [query])
    labels = Labels([row("talk_2", "a", 1.0), row("talk_2", "b", 0.0)])
    (group,) = build_groups(labels, dataset, query_texts={"talk_2": "who built the mill?"})
    assert group.query == "who built the mill?"
    assert group.passages[0] == "Title\nbody"
    assert group.conversation == "talk"


def test_rescaled_leaves_the_utilities_alone():
    labels = Labels([row("q", f"p{i}", value) for i, value in enumerate((-2.0, 0.3, 5.0))])
    groups = build_groups(labels, world("q"))
    other = groups.rescaled("rank")
    assert other[0].targets == (0.0, 0.5, 1.0) and other.rule == "rank"
    assert other[0].utilities == groups[0].utilities == (-2.0, 0.3, 5.0)


@pytest.mark.parametrize("name", ["groups.jsonl", "groups.jsonl.gz"])
def test_files_round_trip(tmp_path, name):
    made = Groups(
        [Group("007", "who\u2028?", ("1", "2"), ("a", "b"), (0.1, 1 / 3), (0.0, 1.0), "c")],
        {"rows failed": 3},
        "min-max",
        1.0,
        ("information-gain@0000aaaa",),
    )
    write_groups(tmp_path / name, made)
    assert read_groups(tmp_path / name) == made


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query_id": "q"}', "no query"),
        (
            '{"query_id":"q","query":"x","passage_ids":["a"],"passages":["b","c"],"utilities":[1],"targets":[1]}',
            "different length",
        ),
        (
            '{"query_id":"q","query":"x","passage_ids":["a"],"passages":["b"],"utilities":[null],"targets":[1]}',
            "finite",
        ),
    ],
)
def test_bad_rows_name_file_and_line(tmp_path, line, message):
    good = '{"query_id":"q","query":"x","passage_ids":["a"],"passages":["b"],"utilities":[1],"targets":[1]}'
    (tmp_path / "g.jsonl").write_text(f"{good}\n{line}\n")
    with pytest.raises(DataError, match=rf"g\.jsonl:2.*{message}"):
        read_groups(tmp_path / "g.jsonl")


def test_integer_numbers_become_floats(tmp_path):
    (tmp_path / "g.jsonl").write_text(
        '{"query_id":7,"query":"x","passage_ids":[1,2],"passages":["b","c"],"utilities":[0,1],"targets":[0,1]}\n'
    )
    (group,) = read_groups(tmp_path / "g.jsonl")
    assert group.query_id == "7" and group.passage_ids == ("1", "2")
    assert all(isinstance(value, float) for value in (*group.utilities, *group.targets))
