"""Both engines against a plain BM25 that is written to be read, and against each other where their formulas meet."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from utilitune.records import Passage
from utilitune.retrieval import Bm25Retriever, Tokeniser

QUESTIONS = {
    "one": "copper",
    "many": "who wrote plays about salt in Velmar",
    "twice": "salt salt Suthe",
    "unknown": "zzz ferry",
}
PLAIN = Tokeniser("none")


def plain_bm25(corpus: list[Passage], query: str, idf: Callable, weight: Callable) -> dict[str, float]:
    """Score every passage that shares a term with the query, one term at a time."""
    documents = {passage.id: PLAIN(passage.full_text) for passage in corpus}
    mean = sum(len(terms) for terms in documents.values()) / len(documents)
    scores: dict[str, float] = {}
    for pid, terms in documents.items():
        if not set(terms) & set(PLAIN(query)):
            continue
        score = 0.0
        for term in PLAIN(query):
            holding = sum(term in other for other in documents.values())
            if holding:
                score += idf(len(documents), holding) * weight(terms.count(term), len(terms) / mean)
        scores[pid] = score
    return scores


K1, B, DELTA = 1.2, 0.6, 0.5


def lucene_idf(total: int, holding: int) -> float:
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


def saturated(frequency: int, length: float) -> float:
    return frequency / (frequency + K1 * (1 - B + B * length))


def bm25l_weight(frequency: int, length: float) -> float:
    norm = frequency / (1 - B + B * length)
    return (K1 + 1) * (norm + DELTA) / (K1 + norm + DELTA)


FORMS: dict[str, tuple[Callable, Callable]] = {
    "lucene": (lucene_idf, saturated),
    "robertson": (lambda n, f: math.log(max(1, (n - f + 0.5) / (f + 0.5))), saturated),
    "atire": (lambda n, f: math.log(n / f), lambda f, length: (K1 + 1) * saturated(f, length)),
    "bm25l": (lambda n, f: math.log((n + 1) / (f + 0.5)), bm25l_weight),
    "bm25+": (lambda n, f: math.log((n + 1) / f), lambda f, length: (K1 + 1) * saturated(f, length) + DELTA),
}


def test_by_hand() -> None:
    # Two passages of 2 and 4 terms, mean 3; "b" is in one of them: idf = ln(1 + 1.5 / 1.5) = ln 2.
    corpus = [Passage("x", "a b"), Passage("y", "a c d e")]
    run = Bm25Retriever.build(corpus, k1=1.0, b=0.5, tokeniser=PLAIN).search_texts({"q": "b"})
    assert run["q"] == [("x", pytest.approx(math.log(2) * 1 / (1 + 1.0 * (0.5 + 0.5 * 2 / 3)), rel=1e-6))]


@pytest.mark.parametrize("method", FORMS)
def test_bm25s_is_the_textbook(method: str, gazetteer: list[Passage]) -> None:
    retriever = Bm25Retriever.build(gazetteer, k1=K1, b=B, delta=DELTA, method=method, tokeniser=PLAIN)
    for query_id, ranking in retriever.search_texts(QUESTIONS, k=100).items():
        expected = plain_bm25(gazetteer, QUESTIONS[query_id], *FORMS[method])
        assert dict(ranking) == pytest.approx(expected, rel=1e-5, abs=1e-6)
        assert [score for _, score in ranking] == sorted((score for _, score in ranking), reverse=True)


def test_rank_bm25_plus_is_the_textbook(gazetteer: list[Passage]) -> None:
    build = {"k1": K1, "b": B, "delta": DELTA, "method": "bm25+", "tokeniser": PLAIN}
    reference = Bm25Retriever.build(gazetteer, engine="rank-bm25", **build).search_texts(QUESTIONS, k=100)
    for query_id, ranking in reference.items():
        assert dict(ranking) == pytest.approx(plain_bm25(gazetteer, QUESTIONS[query_id], *FORMS["bm25+"]), rel=1e-5)


def test_engines_agree_on_bm25_plus(gazetteer: list[Passage]) -> None:
    """The one form that both libraries implement alike: same ranking, same scores."""
    build = {"k1": K1, "b": B, "delta": 1.0, "method": "bm25+", "tokeniser": PLAIN}
    ours = Bm25Retriever.build(gazetteer, **build).search_texts(QUESTIONS, k=100)
    reference = Bm25Retriever.build(gazetteer, engine="rank-bm25", **build).search_texts(QUESTIONS, k=100)
    for query_id in QUESTIONS:
        assert [pid for pid, _ in ours[query_id]] == [pid for pid, _ in reference[query_id]]
        assert dict(ours[query_id]) == pytest.approx(dict(reference[query_id]), abs=1e-4)


def test_robertson_times_k1_plus_one_is_okapi_where_no_idf_is_negative(gazetteer: list[Passage]) -> None:
    """Okapi has the factor k1 + 1, and differs else only for terms in more than half of the passages."""
    without_the = Tokeniser(["the", "in"])
    build = {"k1": K1, "b": B, "tokeniser": without_the}
    ours = Bm25Retriever.build(gazetteer, method="robertson", **build).search_texts(QUESTIONS, k=100)
    okapi = Bm25Retriever.build(gazetteer, engine="rank-bm25", **build).search_texts(QUESTIONS, k=100)
    for query_id in QUESTIONS:
        assert [pid for pid, _ in ours[query_id]] == [pid for pid, _ in okapi[query_id]]
        scaled = {pid: (K1 + 1) * score for pid, score in ours[query_id]}
        assert scaled == pytest.approx(dict(okapi[query_id]), abs=1e-4)
        assert scaled
