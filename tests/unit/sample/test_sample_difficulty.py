"""How hard the sample world is for plain BM25: neither trivial nor hopeless, and later turns need their history."""

import re

import bm25s
import numpy as np
import pytest

from utilitune.sample import make_sample


def words(text):
    return re.findall(r"\w+", text.lower())


@pytest.fixture(scope="module")
def world():
    return make_sample()


@pytest.fixture(scope="module")
def reciprocal_rank(world):
    index = bm25s.BM25(k1=0.9, b=0.4, method="lucene")
    index.index([words(passage.full_text) for passage in world.corpus], show_progress=False)
    ids = [passage.id for passage in world.corpus]

    def mean(pairs):
        total = 0.0
        for query_id, text in pairs:
            top = [ids[i] for i in np.argsort(-index.get_scores(words(text)), kind="stable")[:10]]
            (gold,) = world.qrels[query_id]
            total += 1 / (top.index(gold) + 1) if gold in top else 0.0
        return total / len(pairs)

    return mean


def test_stand_alone_questions_are_neither_trivial_nor_hopeless(world, reciprocal_rank):
    questions = [(query.id, query.text) for query in world.queries if query.id.startswith("q")]
    assert 0.6 < reciprocal_rank(questions) < 0.85


@pytest.mark.parametrize("split", ["train", "test"])
def test_later_turns_gain_from_history_and_more_from_rewrites(world, reciprocal_rank, split):
    later = [query for query in world.queries if query.history and query.metadata["split"] == split]
    raw = reciprocal_rank([(query.id, query.text) for query in later])
    joined = reciprocal_rank([(query.id, f"{query.first_question} {query.text}") for query in later])
    rewritten = reciprocal_rank([(query.id, query.rewrite) for query in later])
    assert 0.05 < raw < 0.4
    assert raw + 0.15 < joined < rewritten - 0.1
    assert rewritten > 0.65
