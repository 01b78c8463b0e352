"""Conversations and their split."""

import random
from collections import Counter

import pytest

from utilitune.errors import DataError
from utilitune.records import Query, Turn, split_by_field, split_queries
from utilitune.records.conversations import ALONE, COUNT, name_conversations
from utilitune.records.split import position

HISTORY = (Turn("user", "first?"), Turn("assistant", "yes"))


def turns(conversations, each=4):
    return [Query(f"c{c}_{t}", f"q{t}", HISTORY * (t > 0)) for c in range(conversations) for t in range(each)]


def test_conversation_of_an_id():
    assert Query("c9_3", "q").conversation == "c9"
    assert Query("a_b_3", "q", HISTORY).conversation == "a_b"
    assert Query("q7", "q").conversation == "q7"
    assert Query("q7", "q", HISTORY).conversation == "q7"
    assert Query("_3", "q").conversation == "_3"
    assert Query("c9_3", "q", metadata={"conversation": 5}).conversation == "5"


def test_first_and_last_question():
    history = (Turn("assistant", "Hello!"), Turn("user", "Who founded Orlen?"), Turn("assistant", "Mira."))
    assert Query("c_2", "When did she die?", history).first_and_last == "Who founded Orlen? When did she die?"
    assert Query("c_1", "When did she die?").first_and_last == "When did she die?"
    # Said twice, it counts once, as typed now.
    assert Query("c_3", "who founded  ORLEN", history).first_and_last == "who founded  ORLEN"
    assert Query("c_4", "質問?", (Turn("user", "質問？"),)).first_and_last == "質問?"


def test_whole_conversations_in_the_given_order():
    queries = turns(300)
    random.Random(0).shuffle(queries)
    train, test = split_queries(queries)
    assert {q.conversation for q in train}.isdisjoint(q.conversation for q in test)
    assert sorted(q.id for q in train + test) == sorted(q.id for q in queries)
    assert train == [q for q in queries if q in set(train)]
    assert 0.2 < len(test) / len(queries) < 0.4


def test_adding_rows_never_moves_others():
    few, many = turns(50), turns(400)
    test_of_many = set(split_queries(many)[1])
    assert split_queries(few)[1] == [query for query in few if query in test_of_many]
    assert split_queries(list(reversed(few)))[1] == list(reversed(split_queries(few)[1]))


def test_share_and_seed():
    queries = turns(2000, 1)
    for share in (0.1, 0.5, 0.9):
        assert abs(len(split_queries(queries, test=share)[1]) / 2000 - share) < 0.03
    assert split_queries(queries, seed=1)[1] != split_queries(queries, seed=2)[1]
    # A larger test share keeps every test row of a smaller one.
    assert set(split_queries(queries, test=0.1)[1]) < set(split_queries(queries, test=0.3)[1])
    assert split_queries(queries, test=0.0) == (queries, [])
    assert split_queries(queries, test=1.0) == ([], queries)


def test_position_is_fixed_for_ever():
    # sha256(b"13\x00c1"), computed with coreutils: printf '13\0c1' | sha256sum
    assert position("c1", 13) == int("7461b2319f0a7756", 16) // 2**11 / 2**53


def test_bad_share_and_empty_side(capsys):
    with pytest.raises(ValueError, match="between 0 and 1"):
        split_queries([], test=1.5)
    split_queries(turns(1))
    assert "side of the split is empty: 4 queries of 1 conversation" in capsys.readouterr().err
    assert split_queries([]) == ([], [])


def test_turns_without_a_conversation_in_their_id_are_named_by_their_opening():
    queries = [
        Query("x<::>1", " first? "),
        Query("x<::>2", "second", HISTORY),
        Query("y<::>1", "other?"),
        Query("y<::>2", "more", (Turn("user", "other?"), Turn("assistant", ""))),
        Query("lonely", "alone?"),
        Query("c_1", "first?"),
        Query("z", "named", HISTORY, metadata={"conversation": "mine"}),
    ]
    counts: Counter[str] = Counter()
    named = name_conversations(queries, counts)
    groups = [query.conversation for query in named]
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert groups[4:] == ["lonely", "c", "mine"]
    assert counts == {COUNT: 4}
    assert [query.id for query in named] == [query.id for query in queries]


def test_numbered_single_questions_are_no_conversation():
    queries = [Query(f"test_{i}", f"q{i}") for i in range(50)]
    counts: Counter[str] = Counter()
    named = name_conversations(queries, counts)
    assert len({query.conversation for query in named}) == 50
    assert counts == {ALONE: 50}
    assert name_conversations(turns(1), counts) == turns(1)
    assert len({query.conversation for query in name_conversations(turns(1), counts)}) == 1


def test_numbered_questions_beside_conversations_are_none_themselves():
    said = (Turn("user", "who?"),)
    talk = [Query("c1_1", "who?"), Query("c1_2", "and her?", said), Query("c7_1", "alone")]
    single = [Query(f"nq_{number}", f"question {number}") for number in range(40)]
    counts = Counter()
    named = name_conversations([*single, *talk], counts)
    assert [query.conversation for query in named] == [*(query.id for query in single), "c1", "c1", "c7"]
    assert counts == {ALONE: 40}
    train, test = split_queries(named)
    assert {"nq"} == {query.id.partition("_")[0] for query in train} & {query.id.partition("_")[0] for query in test}


def said(*values):
    return [Query(f"q{i}", "?", metadata={} if value is None else {"split": value}) for i, value in enumerate(values)]


def test_other_values_of_the_field_are_left_out_counted_and_named(capsys):
    parts = split_by_field(said("train", "dev", "test", "Train", "train", "dev"))
    assert parts is not None
    assert [[query.id for query in part] for part in parts] == [["q0", "q4"], ["q2"]]
    assert "3 of 6 queries are neither 'train' nor 'test' and left out ('Train' 1, 'dev' 2)" in capsys.readouterr().err
    assert split_by_field(said("train", "test")) is not None
    assert capsys.readouterr().err == ""


def test_a_field_that_some_lack_does_not_split(capsys):
    assert split_by_field(said("train", None, "test", "")) is None
    assert "only 2 of 4 queries have a field 'split'; a hash" in capsys.readouterr().err
    assert split_by_field(said(None, None)) is None
    assert "none of the 2 queries have a field 'split'; a hash" in capsys.readouterr().err


def test_a_field_without_train_and_test_is_an_error():
    with pytest.raises(DataError, match="of the 2 queries says 'Test' 1, 'dev' 1; expected 'train' or 'test'"):
        split_by_field(said("dev", "Test"))
