"""What a BM25 retriever promises whatever the formula."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.records import Passage, Query
from utilitune.retrieval import Bm25Retriever, Tokeniser, corpus_hash, load_index
from utilitune.retrieval.bm25_engines import ENGINES

EVERY = [(engine, method) for engine, made in ENGINES.items() for method in made.METHODS]
every = pytest.mark.parametrize(("engine", "method"), EVERY)
engines = pytest.mark.parametrize("engine", ENGINES)


def hits(retriever: Bm25Retriever, text: str, k: int = 10) -> list[str]:
    return [pid for pid, _ in retriever.search_texts({"q": text}, k)["q"]]


@every
def test_empty_corpus_is_one_clear_error(engine: str, method: str) -> None:
    with pytest.raises(DataError, match="corpus is empty"):
        Bm25Retriever.build([], engine=engine, method=method)


@every
@pytest.mark.parametrize("texts", [["", ""], ["the of"], ["   ", "?!"]])
def test_blank_corpus_gives_empty_lists(engine: str, method: str, texts: list[str], tmp_path: Path) -> None:
    corpus = [Passage(f"p{i}", text) for i, text in enumerate(texts)]
    retriever = Bm25Retriever.build(corpus, engine=engine, method=method)
    assert len(retriever) == len(texts)
    assert retriever.counts["blank_passages"] == len(texts)
    assert retriever.search_texts({"a": "velmar", "b": ""}) == {"a": [], "b": []}
    retriever.save(tmp_path / "index")
    assert load_index(tmp_path / "index").search([Query("a", "velmar")]) == {"a": []}


@every
def test_one_passage_is_found_and_k_is_capped(engine: str, method: str) -> None:
    # rank_bm25's inverse document frequency is negative here; a match is a match all the same.
    retriever = Bm25Retriever.build([Passage("only", "velmar harbour")], engine=engine, method=method)
    assert hits(retriever, "harbour", k=1000) == ["only"]
    assert hits(retriever, "zzz", k=1000) == []


@every
def test_only_passages_that_share_a_term_are_hits(engine: str, method: str, gazetteer: list[Passage]) -> None:
    retriever = Bm25Retriever.build([*gazetteer, Passage("p8", "")], engine=engine, method=method)
    assert sorted(hits(retriever, "Velmar")) == ["p1", "p3", "p4"]
    assert sorted(hits(retriever, "copper Dorn zzz")) == ["p2", "p3", "p6", "p7"]
    assert len(hits(retriever, "copper Dorn", k=2)) == 2
    assert retriever.counts["blank_passages"] == 1


@engines
def test_text_of_every_script_is_found_and_noise_is_not(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["東京都の人口は多い", "vitamin C and K", "café", "สวัสดีชาวโลก", "مرحبا بالعالم", "हिन्दी भाषा", "🎉 party"]
    retriever = Bm25Retriever.build([Passage(str(i), text) for i, text in enumerate(texts)], engine=engine)
    finds = {"人口": "0", "C": "1", unicodedata.normalize("NFD", "CAFÉ"): "2", "ชาวโลก": "3", "مَرْحَبًا": "4", "भाषा": "5"}
    finds["🎉"] = "6"
    for text, pid in finds.items():
        assert hits(retriever, text) == [pid], text
    capsys.readouterr()
    run = retriever.search_texts({"a": "zzz", "b": "the of and", "c": "", "d": "vitamin"})
    assert {query_id: bool(ranking) for query_id, ranking in run.items()} == {
        "a": False,
        "b": False,
        "c": False,
        "d": True,
    }
    assert "3 of 4 queries match no passage (2 have no term" in capsys.readouterr().err
    assert retriever.counts["queries"] == 4 + len(finds)
    assert (retriever.counts["queries_without_hits"], retriever.counts["queries_without_terms"]) == (3, 2)


@engines
def test_ties_stand_by_descending_id_also_at_the_cut(engine: str) -> None:
    ids = ["b", "z", "a", "10", "9", "é"]
    filler = [Passage(f"f{i}", f"filler{i} words") for i in range(9)]
    corpus = [Passage(pid, "velmar harbour") for pid in ids]
    expected = sorted(ids, reverse=True)
    for ordered in (corpus + filler, filler + corpus[::-1]):
        retriever = Bm25Retriever.build(ordered, engine=engine)
        assert hits(retriever, "harbour") == expected
        assert hits(retriever, "harbour", k=3) == expected[:3]


@engines
def test_a_run_does_not_depend_on_batch_or_order(engine: str, gazetteer: list[Passage]) -> None:
    retriever = Bm25Retriever.build(gazetteer, engine=engine)
    texts = {"a": "salt Suthe", "b": "copper", "c": "nothing"}
    together = retriever.search_texts(texts)
    assert all(
        retriever.search_texts({query_id: text})[query_id] == together[query_id] for query_id, text in texts.items()
    )
    assert retriever.search([Query(query_id, text) for query_id, text in reversed(texts.items())]) == together
    # A larger k only appends.
    assert retriever.search_texts(texts, k=1)["a"] == together["a"][:1]


@every
@pytest.mark.parametrize("stopwords", ["english", "none", ["velmar"]])
def test_a_saved_index_answers_alike(
    engine: str, method: str, stopwords: str, gazetteer: list[Passage], tmp_path: Path
) -> None:
    corpus = [*gazetteer, Passage("p8", ""), Passage("p9", "東京都 café"), Passage("p10", "")]
    retriever = Bm25Retriever.build(corpus, k1=1.1, b=0.3, engine=engine, method=method, tokeniser=Tokeniser(stopwords))
    retriever.save(tmp_path / "index")
    loaded = load_index(tmp_path / "index")
    texts = {"a": "salt in Velmar", "b": "the copper", "c": "東京", "d": "zzz"}
    assert loaded.search_texts(texts) == retriever.search_texts(texts)
    assert loaded.settings == retriever.settings
    assert loaded.corpus_sha256 == retriever.corpus_sha256 == corpus_hash(corpus)


def test_the_folder_holds_no_pickle_and_says_what_made_it(gazetteer: list[Passage], tmp_path: Path) -> None:
    for engine in ENGINES:
        folder = tmp_path / engine
        Bm25Retriever.build(gazetteer, engine=engine).save(folder)
        assert {path.suffix for path in folder.iterdir()} <= {".json", ".npy", ".npz"}
        stated = json.loads((folder / "manifest.json").read_text())
        assert (stated["kind"], stated["passages"], stated["settings"]["k1"]) == ("bm25", 7, 0.9)
        assert "the" in stated["settings"]["tokeniser"]["stopwords"]
        assert "bm25s" in stated["versions"]


def test_the_same_corpus_makes_the_same_files(gazetteer: list[Passage], tmp_path: Path) -> None:
    for name in ("one", "two"):
        Bm25Retriever.build(gazetteer).save(tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        if path.name != "manifest.json":
            assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_corpus_hash_sees_ids_titles_texts_and_order() -> None:
    base = [Passage("a", "x", "t"), Passage("b", "y")]
    others = [
        [Passage("a2", "x", "t"), Passage("b", "y")],
        [Passage("a", "x2", "t"), Passage("b", "y")],
        [Passage("a", "x", "t2"), Passage("b", "y")],
        base[::-1],
        base[:1],
    ]
    assert corpus_hash(base) not in {corpus_hash(other) for other in others}
    assert corpus_hash(base) == corpus_hash(iter(base)) == Bm25Retriever.build(base).corpus_sha256


def test_wrong_settings_are_named_together() -> None:
    corpus = [Passage("a", "x")]
    with pytest.raises(ConfigError, match=r"k1 is -1.*b is 2.*method 'okapi'.*lucene"):
        Bm25Retriever.build(corpus, k1=-1, b=2, method="okapi")
    with pytest.raises(ConfigError, match="b is nan"):
        Bm25Retriever.build(corpus, b=float("nan"))
    with pytest.raises(ConfigError, match="bm25s, rank-bm25"):
        Bm25Retriever.build(corpus, engine="elastic")
    with pytest.raises(ConfigError, match="k is 0"):
        Bm25Retriever.build(corpus).search_texts({"q": "x"}, k=0)


def test_ids_must_be_unique() -> None:
    with pytest.raises(DataError, match="'a' occurs twice"):
        Bm25Retriever.build([Passage("a", "x"), Passage("a", "y")])
    with pytest.raises(DataError, match="'q' occurs twice"):
        Bm25Retriever.build([Passage("a", "x")]).search([Query("q", "x"), Query("q", "y")])
