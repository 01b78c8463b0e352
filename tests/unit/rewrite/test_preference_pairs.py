import math

import pytest
from typer.testing import CliRunner

from utilitune.cli import app
from utilitune.errors import ConfigError, DataError
from utilitune.records import read_pairs
from utilitune.rewrite import Candidate, NoPairsError, build_pairs, read_candidates, write_candidates
from utilitune.rewrite.pairs import REASONS

PROMPT = ({"role": "user", "content": "rewrite x"},)


def candidate(query_id, text, utility, **fields):
    return Candidate(query_id, text, "sample", PROMPT, utility, **fields)


def test_best_meets_worst_with_utilities_and_passages():
    rows = [
        candidate("q", "low", 0.1, passages={"bm25": ("p3",)}),
        candidate("q", "high", 0.9, passages={"bm25": ("p1", "p2"), "dense": ("p2", "p4")}),
        candidate("q", "middle", 0.5),
    ]
    (pair,) = build_pairs(rows, keep=1.0)
    assert pair.chosen == ({"role": "assistant", "content": "high"},)
    assert pair.rejected == ({"role": "assistant", "content": "low"},)
    assert pair.prompt == PROMPT
    assert (pair.chosen_utility, pair.rejected_utility) == (0.9, 0.1)
    assert pair.margin == pytest.approx(0.8)
    assert pair.chosen_passages == ("p1", "p2", "p4")
    assert pair.rejected_passages == ("p3",)


def test_several_pairs_meet_from_the_outside_in():
    rows = [candidate("q", text, float(utility)) for utility, text in enumerate("abcde")]
    pairs = build_pairs(rows, keep=1.0, pairs_per_query=5)
    assert [(p.chosen[0]["content"], p.rejected[0]["content"]) for p in pairs] == [("e", "a"), ("d", "b")]


def sides(pairs):
    return [(p.chosen[0]["content"], p.rejected[0]["content"]) for p in pairs]


def test_all_ordered_pairs_largest_margin_first():
    rows = [candidate("q", text, utility) for text, utility in (("a", 0.0), ("b", 1.0), ("c", 3.0), ("d", 3.0))]
    assert sides(build_pairs(rows, keep=1.0, pairs_per_query=9, pairing="all")) == [
        ("c", "a"),
        ("d", "a"),
        ("c", "b"),
        ("d", "b"),
        ("b", "a"),
    ]
    assert len(build_pairs(rows, keep=1.0, pairs_per_query=2, pairing="all")) == 2


def test_best_against_the_worst_few():
    rows = [candidate("q", text, float(utility)) for utility, text in enumerate("abcd")]
    pairs = build_pairs(rows, keep=1.0, pairs_per_query=2, pairing="best-few")
    assert sides(pairs) == [("d", "a"), ("d", "b")]
    with pytest.raises(ConfigError, match="best-worst, all, best-few"):
        build_pairs(rows, pairing="some")


def test_only_candidates_of_the_wanted_sources_meet():
    rows = [
        Candidate("q", "who is it cats", "first-question", PROMPT, 3.0),
        Candidate("q", "which cats", "sample", PROMPT, 2.0),
        Candidate("q", "what is it", "original", PROMPT, 1.0),
        Candidate("q", "it", "keywords", PROMPT, -1.0),
        Candidate("alone", "first form", "first-question", PROMPT, 1.0),
        Candidate("alone", "which dogs", "greedy", PROMPT, 0.0),
    ]
    pairs = build_pairs(rows, keep=1.0, pairing="all", pairs_per_query=9, sources=["sample", "greedy", "original"])
    assert sides(pairs) == [("which cats", "what is it")]
    assert dict(pairs.drops) == {"other-sources": 1} and pairs.other_sources == 3
    assert "(3 candidates of other sources left out)" in pairs.explain()
    assert sides(build_pairs(rows, keep=1.0)) == [("who is it cats", "it"), ("first form", "which dogs")]


def test_sources_that_leave_no_two_candidates_are_named():
    rows = [candidate("q", "a", 0.0), candidate("q", "b", 1.0)]
    with pytest.raises(NoPairsError, match=r"other-sources +1 .*--source"):
        build_pairs(rows, sources=["greedy"])


def test_an_unknown_source_is_named():
    with pytest.raises(ConfigError, match=r"sources mine are unknown; known: sample, greedy, original"):
        build_pairs([], sources=["mine", "sample"])


def test_samples_go_from_the_largest_margin_to_the_least():
    rows = [candidate(f"q{n}", text, n * u) for n in range(1, 6) for text, u in (("good", 1.0), ("bad", 0.0))]
    pairs = build_pairs(rows, keep=1.0)
    text = pairs.samples(3)
    assert [line.split()[0] for line in text.splitlines() if "margin" in line] == ["q5", "q3", "q1"]
    assert "  ? rewrite x" in text and "+ +5  good" in text and "- +0  bad" in text


def test_all_that_cannot_pair_stops_before_any_model_with_the_table(tiny_tokenizer):
    shared = " ".join(["river"] * 300)
    rows = [
        candidate("q1", "cats", 0.0),
        candidate("q1", "cats ", 0.0),
        candidate("q2", "dog breeds", 0.4),
        candidate("q3", f"{shared} one", 0.9),
        candidate("q3", f"{shared} two", 0.1),
    ]
    with pytest.raises(NoPairsError) as caught:
        build_pairs(rows, tokenizer=tiny_tokenizer, max_length=128)
    assert isinstance(caught.value, DataError)
    pair_set = caught.value.pair_set
    assert pair_set.drops == {"tie": 1, "single": 1, "identical-tokens": 1}
    assert pair_set.dropped() == {"q1": "tie", "q2": "single", "q3": "identical-tokens"}
    for reason in pair_set.drops:
        assert any(line.startswith(reason) and " 1 " in line for line in str(caught.value).splitlines())


def test_long_pairs_that_differ_early_are_too_long_and_never_cut(tiny_tokenizer):
    tail = " ".join(["river"] * 300)
    rows = [candidate("q", f"one {tail}", 0.9), candidate("q", f"two {tail}", 0.1)]
    rows += [candidate("r", "one", 0.9), candidate("r", "two", 0.1)]
    pairs = build_pairs(rows, tokenizer=tiny_tokenizer, max_length=128, keep=1.0)
    assert [pair.query_id for pair in pairs] == ["r"]
    assert pairs.drops == {"too-long": 1}


def test_length_limit_is_inclusive(tiny_tokenizer):
    from utilitune.rewrite.chat_format import ChatFormat

    rows = [candidate("q", "one two three", 0.9), candidate("q", "two", 0.1)]
    (pair,) = build_pairs(rows, keep=1.0)
    length = ChatFormat.of(tiny_tokenizer).pair_tokens(pair).length
    # <s> user rewrite x </s> <s> assistant one two three </s>
    assert length == 11
    assert len(build_pairs(rows, tokenizer=tiny_tokenizer, max_length=11, keep=1.0)) == 1
    with pytest.raises(NoPairsError):
        build_pairs(rows, tokenizer=tiny_tokenizer, max_length=10, keep=1.0)


def test_texts_that_the_tokenizer_cannot_tell_apart(tiny_tokenizer):
    rows = [candidate("q", "unheard", 0.9), candidate("q", "unseen", 0.1)]  # both <unk>
    with pytest.raises(NoPairsError) as caught:
        build_pairs(rows, tokenizer=tiny_tokenizer)
    assert caught.value.pair_set.drops == {"identical-tokens": 1}


def test_same_text_with_two_utilities_is_identical():
    with pytest.raises(NoPairsError) as caught:
        build_pairs([candidate("q", "Who?", 1.0), candidate("q", "who", 0.0)])
    assert caught.value.pair_set.drops == {"identical": 1}


def test_missing_and_non_finite_utilities_never_pair():
    rows = [candidate("q", "a", None), candidate("q", "b", math.nan), candidate("q", "c", 1.0)]
    rows += [candidate("r", "a", 1.0), candidate("r", "b", 0.0), candidate("r", "c", math.inf)]
    pairs = build_pairs(rows, keep=1.0)
    assert [(p.query_id, p.chosen[0]["content"]) for p in pairs] == [("r", "a")]
    assert pairs.drops == {"invalid": 1}
    assert pairs.invalid_candidates == 3


def test_margin_and_share_kept():
    rows = []
    for index, margin in enumerate([0.1, 0.2, 0.3, 0.4, 0.5]):
        rows += [candidate(f"q{index}", "a", margin), candidate(f"q{index}", "b", 0.0)]
    assert [p.query_id for p in build_pairs(rows, keep=1.0)] == ["q0", "q1", "q2", "q3", "q4"]
    half = build_pairs(rows, keep=0.5)
    assert [p.query_id for p in half] == ["q2", "q3", "q4"]  # ceil(2.5)
    assert half.margin == pytest.approx(0.3)
    assert half.drops == {"below-margin": 2}
    assert [p.query_id for p in build_pairs(rows, margin=0.35, keep=1.0)] == ["q3", "q4"]
    # The share is of what the margin leaves.
    assert [p.query_id for p in build_pairs(rows, margin=0.35, keep=0.5)] == ["q4"]


def test_every_question_is_a_pair_or_a_reason():
    rows = [candidate("single", "a", 1.0), candidate("tie", "a", 1.0), candidate("tie", "b", 1.0)]
    rows += [candidate("ok", "a", 1.0), candidate("ok", "b", 0.0)]
    pairs = build_pairs(rows)
    assert {p.query_id for p in pairs} | set(pairs.dropped()) == {"single", "tie", "ok"}
    assert len(pairs) + sum(pairs.drops.values()) == pairs.questions == 3
    assert set(pairs.drops) <= set(REASONS)


def test_order_of_candidates_does_not_matter():
    rows = [candidate("q", text, utility) for text, utility in [("a", 1.0), ("b", 1.0), ("c", 0.0), ("d", 0.0)]]
    assert build_pairs(rows).pairs == build_pairs(rows[::-1]).pairs


@pytest.mark.parametrize("options", [{"keep": 0.0}, {"keep": 1.5}, {"margin": -1.0}, {"pairs_per_query": 0}])
def test_options_out_of_range(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        build_pairs([candidate("q", "a", 1.0)], **options)


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz", "c.parquet"])
def test_candidates_survive_the_file(tmp_path, name):
    rows = [
        candidate("q1", "who\u2028is", 0.5, passages={"bm25": ("1", "2")}, parts={"bm25/gain": 0.25}),
        candidate("q1", "é", None),
        Candidate("007", "x", "original", PROMPT, -1.0, passages={"bm25": (), "dense": ("3",)}),
    ]
    write_candidates(tmp_path / name, rows)
    read = read_candidates(tmp_path / name)
    assert [(r.query_id, r.text, r.source, r.prompt, r.utility) for r in read] == [
        (r.query_id, r.text, r.source, r.prompt, r.utility) for r in rows
    ]
    assert {k: v for k, v in read[0].passages.items() if v} == {"bm25": ("1", "2")}
    assert read[0].parts == {"bm25/gain": 0.25}


def test_a_row_that_is_no_candidate_is_named(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"query_id": "q", "text": "a"}\n{"query_id": "q", "text": "b", "source": "guess"}\n')
    with pytest.raises(DataError, match=r"c\.jsonl:2.*guess"):
        read_candidates(path)


def test_the_command_line_sets_the_length_limit_and_names_it(tiny_base, tmp_path):
    tail = " ".join(["river"] * 100)
    rows = [candidate("q", f"one {tail}", 0.9), candidate("q", f"two {tail}", 0.1)]
    rows += [candidate("r", "one", 0.9), candidate("r", "two", 0.1)]
    write_candidates(tmp_path / "c.jsonl", rows)
    words = ["pairs", str(tmp_path), "--candidates", str(tmp_path / "c.jsonl"), "--rewriter", str(tiny_base)]
    words += ["--keep", "1", "--out", str(tmp_path / "p.jsonl")]
    short = CliRunner().invoke(app, [*words, "--max-length", "64"])
    assert short.exit_code == 0, short.exception
    assert "--max-length" in short.stdout
    assert len(list(read_pairs(tmp_path / "p.jsonl"))) == 1
    CliRunner().invoke(app, [*words, "--max-length", "400"])
    assert len(list(read_pairs(tmp_path / "p.jsonl"))) == 2
