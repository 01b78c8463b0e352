"""Long pairs: nothing overflows, the query survives, everything cut is counted."""

from __future__ import annotations

import pytest

from utilitune.errors import ConfigError
from utilitune.rerank.cross_encoder import limit_length, new_cross_encoder, usable_positions
from utilitune.rerank.pair_scores import score_pairs
from utilitune.rerank.pair_trimmer import PairTrimmer


def words(count, word="town"):
    return " ".join([word] * count)


@pytest.fixture(scope="module")
def bert(tiny_bert):
    return new_cross_encoder(tiny_bert, seed=0, device="cpu")


def test_limit_is_the_positions_when_the_tokenizer_has_none(bert):
    assert bert.max_seq_length == 64


# 64 positions less [CLS] and two [SEP] leave 61; half of them, 30, are the query's
@pytest.mark.parametrize(
    ("query", "passage", "kept_query", "kept_passage"),
    [(500, 5, 30, 5), (5, 500, 5, 56), (500, 500, 30, 31), (5, 5, 5, 5), (30, 31, 30, 31), (0, 500, 0, 61)],
)
def test_what_is_kept(bert, query, passage, kept_query, kept_passage):
    trimmer = PairTrimmer(bert.tokenizer, bert.max_seq_length)
    ((short_query, short_passage),) = trimmer.trim([(words(query), words(passage, "mill"))])
    assert short_query == words(kept_query) and short_passage == words(kept_passage, "mill")
    assert trimmer.counts == {
        "pairs": 1,
        "truncated_pairs": int((query, passage) != (kept_query, kept_passage)),
        "truncated_queries": int(query != kept_query),
        "truncated_passages": int(passage != kept_passage),
    }


def test_the_query_is_cut_alike_for_all_its_passages(bert):
    trimmer = PairTrimmer(bert.tokenizer, bert.max_seq_length)
    fitted = trimmer.trim([(words(50), words(size, "mill")) for size in (1, 20, 400)])
    assert len({query for query, _ in fitted}) == 1
    assert trimmer.truncated_share == 1.0


def test_long_pairs_predict_without_a_crash_and_equal_their_beginnings(bert):
    trimmer = PairTrimmer(bert.tokenizer, bert.max_seq_length)
    pairs = [(words(500), words(5)), (words(5), words(500)), (words(500), words(500))]
    begun = [(words(30), words(5)), (words(5), words(56)), (words(30), words(31))]
    assert score_pairs(bert, trimmer, pairs) == pytest.approx(score_pairs(bert, trimmer, begun), abs=1e-6)


def test_positions_that_are_declared_but_not_usable(tiny_roberta):
    model = new_cross_encoder(tiny_roberta, seed=0, device="cpu")
    assert usable_positions(model.transformers_model) == 32
    assert model.max_seq_length == 32
    trimmer = PairTrimmer(model.tokenizer, model.max_seq_length)
    assert len(score_pairs(model, trimmer, [(words(500), words(500))])) == 1


def test_max_length_lowers_and_never_raises(tiny_bert):
    assert new_cross_encoder(tiny_bert, seed=0, max_length=20, device="cpu").max_seq_length == 20
    assert new_cross_encoder(tiny_bert, seed=0, max_length=4000, device="cpu").max_seq_length == 64


def test_no_room_is_an_error(bert):
    with pytest.raises(ConfigError, match="max_length"):
        PairTrimmer(bert.tokenizer, 6)


def test_a_cut_that_tokenizes_into_more_tokens_is_cut_again():
    """A vocabulary where the beginning of a word has more tokens than the whole."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"[UNK]": 0, "a": 1, "b": 2, "c": 3, "bc": 4, "abc": 5, "ab": 6}
    # merges: bc, then a+bc; "ab" alone never merges, so cutting inside changes the count
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE(vocabulary, [("b", "c"), ("a", "bc")], unk_token="[UNK]")),
        unk_token="[UNK]",
    )
    trimmer = PairTrimmer(tokenizer, 8)
    ((_, passage),) = trimmer.trim([("a", "abc" * 20)])
    assert passage == "abc" * 7
    assert len(tokenizer("a", passage)["input_ids"]) <= 8


def test_limit_needs_something_to_go_by(bert):
    assert limit_length(bert, None) == 64
