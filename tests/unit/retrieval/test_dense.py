"""Dense retrieval with tiny random encoders: exactness, blanks, ties, identity."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.records import Passage, Query
from utilitune.retrieval import DenseRetriever, load_index
from utilitune.retrieval.vector_index import INDEXES

MakeEncoder = Callable[..., Path]
SMALL = ("flat", "hnsw", "numpy")  # ivfpq needs more passages
small = pytest.mark.parametrize("index", SMALL)


def words(count: int, seed: int = 0) -> list[Passage]:
    draw = np.random.default_rng(seed)
    letters = np.array(list("abcdefghij"))
    return [Passage(f"p{i:04}", "".join(draw.choice(letters, draw.integers(3, 12)))) for i in range(count)]


def scored(run: dict, query_id: str = "q") -> dict[str, float]:
    return dict(run[query_id])


@small
def test_scores_are_cosines_of_the_encoder(index: str, make_encoder: MakeEncoder, gazetteer: list[Passage]) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(make_encoder()), device="cpu")
    run = DenseRetriever.build(gazetteer, encoder=model, index=index).search_texts({"q": "salt", "r": "Velmar"}, k=99)
    passages = model.encode([passage.full_text for passage in gazetteer]).astype(np.float64)
    for query_id, text in (("q", "salt"), ("r", "Velmar")):
        query = model.encode(text).astype(np.float64)
        cosines = passages @ query / np.linalg.norm(passages, axis=1) / np.linalg.norm(query)
        assert len(run[query_id]) == len(gazetteer)
        assert scored(run, query_id) == pytest.approx(
            {p.id: c for p, c in zip(gazetteer, cosines, strict=True)}, abs=2e-6
        )
        ranked = [score for _, score in run[query_id]]
        assert ranked == sorted(ranked, reverse=True)


@small
def test_small_and_blank_corpora(index: str, make_encoder: MakeEncoder, tmp_path: Path) -> None:
    encoder = make_encoder()
    with pytest.raises(DataError, match="corpus is empty"):
        DenseRetriever.build([], encoder=encoder, index=index)
    blank = DenseRetriever.build([Passage("a", ""), Passage("b", " \n")], encoder=encoder, index=index)
    assert (len(blank), blank.search_texts({"q": "x"})) == (2, {"q": []})
    blank.save(tmp_path / "blank")
    assert DenseRetriever.load(tmp_path / "blank").search_texts({"q": "x"}) == {"q": []}
    one = DenseRetriever.build(
        [Passage("", ""), Passage("a", "velmar"), Passage("z", " ")], encoder=encoder, index=index
    )
    assert [pid for pid, _ in one.search_texts({"q": "anything"}, k=50)["q"]] == ["a"]
    assert one.counts["blank_passages"] == 2


def test_padding_rows_of_faiss_never_become_a_passage(make_encoder: MakeEncoder) -> None:
    """IVF looks into a part of the lists only, so a large k comes back padded with row -1."""
    corpus = [*words(1200), Passage("last", "zz")]
    retriever = DenseRetriever.build(corpus, encoder=make_encoder(), index="ivfpq")
    assert retriever._vectors is not None
    retriever._vectors._index.nprobe = 1  # type: ignore[attr-defined]
    with np.errstate(over="raise"):
        ranking = retriever.search_texts({"q": "abc"}, k=1201)["q"]
    assert 0 < len(ranking) < 1201
    assert len({pid for pid, _ in ranking}) == len(ranking)
    assert all(-1.5 < score < 1.5 for _, score in ranking)


def test_ivfpq_says_that_a_corpus_is_too_small(make_encoder: MakeEncoder) -> None:
    with pytest.raises(ConfigError, match=r"at least 1024 .* found 30; use index='flat'"):
        DenseRetriever.build(words(30), encoder=make_encoder(), index="ivfpq")


@pytest.mark.parametrize(("index", "least"), [("hnsw", 0.98), ("ivfpq", 0.3), ("numpy", 1.0)])
def test_share_of_the_exact_top_ten(index: str, least: float, make_encoder: MakeEncoder) -> None:
    # Chance is 0.007. Codes of these 16-dimensional vectors have 4 bytes; of 384 dimensions, 96 bytes, they keep 0.83.
    corpus = words(1500)
    exact = DenseRetriever.build(corpus, encoder=make_encoder())
    other = DenseRetriever.build(corpus, encoder=make_encoder(), index=index)
    texts = {passage.id: passage.text + "c" for passage in words(40, seed=1)}
    expected, found = exact.search_texts(texts), other.search_texts(texts)
    shares = [len({p for p, _ in expected[q]} & {p for p, _ in found[q]}) / 10 for q in texts]
    assert np.mean(shares) >= least


@pytest.mark.parametrize("index", ["hnsw", "ivfpq"])
def test_the_same_corpus_makes_the_same_index(index: str, make_encoder: MakeEncoder, tmp_path: Path) -> None:
    for name in ("one", "two"):
        DenseRetriever.build(words(1100), encoder=make_encoder(), index=index).save(tmp_path / name)
    assert (tmp_path / "one/index.faiss").read_bytes() == (tmp_path / "two/index.faiss").read_bytes()


@pytest.mark.parametrize("index", ["flat", "numpy"])
def test_ties_stand_by_descending_id_also_at_the_cut(index: str, make_encoder: MakeEncoder) -> None:
    ids = [f"t{i:03}" for i in range(60)]
    corpus = [Passage(pid, "velmar") for pid in ids] + words(20)
    retriever = DenseRetriever.build(corpus, encoder=make_encoder(), index=index)
    ranking = retriever.search_texts({"q": "velmar"}, k=5)["q"]
    assert ranking == [(pid, 1.0) for pid in sorted(ids, reverse=True)[:5]]


@small
def test_a_run_does_not_depend_on_batch_or_order(index: str, make_encoder: MakeEncoder) -> None:
    texts = {f"q{i}": passage.text * (1 + i % 3) for i, passage in enumerate(words(50, seed=2))}
    together = DenseRetriever.build(words(90), encoder=make_encoder(), index=index).search_texts(texts)
    other = DenseRetriever.build(reversed(words(90)), encoder=make_encoder(), index=index, batch_size=3)
    for query_id, text in texts.items():
        alone = other.search_texts({query_id: text})
        assert scored(alone, query_id) == pytest.approx(scored(together, query_id), abs=3e-6)


def test_blank_queries_get_an_empty_list(make_encoder: MakeEncoder, capsys: pytest.CaptureFixture[str]) -> None:
    retriever = DenseRetriever.build(words(5), encoder=make_encoder())
    run = retriever.search([Query("a", " "), Query("b", "abc"), Query("c", "")], k=2)
    assert {query_id: len(ranking) for query_id, ranking in run.items()} == {"a": 0, "b": 2, "c": 0}
    assert list(run) == ["a", "b", "c"]
    assert "2 of 3 queries are blank" in capsys.readouterr().err
    assert (retriever.counts["queries"], retriever.counts["blank_queries"]) == (3, 2)


def test_cut_texts_are_counted_and_said(make_encoder: MakeEncoder, capsys: pytest.CaptureFixture[str]) -> None:
    # One token a letter, window 32 with two special tokens: 30 letters fit, 31 do not.
    corpus = [Passage("fits", " ".join("a" * 30)), Passage("cut", " ".join("a" * 31)), Passage("c", "cd")]
    retriever = DenseRetriever.build(corpus, encoder=make_encoder())
    assert retriever.counts["cut_passages"] == 1
    assert "1 of 3 passages (33.3%) are longer than its window of 32 tokens" in capsys.readouterr().err
    retriever.search_texts({"q": "a b " * 40, "r": "a"})
    assert retriever.encoder.counts == {"passages": 3, "passages_cut": 1, "queries": 2, "queries_cut": 1}


def test_broken_characters_do_not_stop_a_build(make_encoder: MakeEncoder) -> None:
    retriever = DenseRetriever.build([Passage("a", "ab\ud800c"), Passage("b", "xyz")], encoder=make_encoder())
    assert len(retriever.search_texts({"q": "\udfffab"})["q"]) == 2


@pytest.mark.parametrize("index", INDEXES)
def test_a_saved_index_answers_alike(index: str, make_encoder: MakeEncoder, tmp_path: Path) -> None:
    corpus = [Passage("first", " "), *words(1100), Passage("blank", "")]
    retriever = DenseRetriever.build(corpus, encoder=make_encoder(), index=index)
    retriever.save(tmp_path / "index")
    loaded = load_index(tmp_path / "index")
    queries = [Query("a", "abc"), Query("b", "jjjj"), Query("c", "")]
    assert loaded.search(queries, k=7) == retriever.search(queries, k=7)
    assert isinstance(loaded, DenseRetriever)
    assert loaded.settings == retriever.settings
    assert loaded.counts["blank_passages"] == 2
    assert {path.suffix for path in (tmp_path / "index").iterdir()} <= {".json", ".npy", ".faiss"}
    assert (tmp_path / "index/index.faiss").exists() == (index != "numpy")


def test_every_passage_finds_itself_after_loading(make_encoder: MakeEncoder, tmp_path: Path) -> None:
    corpus = [Passage("blank", ""), *words(40)]
    DenseRetriever.build(corpus, encoder=make_encoder()).save(tmp_path / "index")
    run = load_index(tmp_path / "index").search([Query(p.id, p.text) for p in corpus[1:]], k=1)
    texts = {passage.id: passage.text for passage in corpus}
    assert all(texts[ranking[0][0]] == texts[query_id] for query_id, ranking in run.items())


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"seed": 0, "width": 8}, {"seed": 0, "pooling": "cls"}, {"seed": 1, "width": 32}]
)
def test_another_encoder_is_refused_by_name(other: dict, make_encoder: MakeEncoder, tmp_path: Path) -> None:
    right, wrong = make_encoder(), make_encoder(**other)
    DenseRetriever.build(words(5), encoder=right).save(tmp_path / "index")
    with pytest.raises(ConfigError) as caught:
        DenseRetriever.load(tmp_path / "index", encoder=wrong)
    assert str(right) in str(caught.value)
    assert str(wrong) in str(caught.value)
    if "pooling" in other:
        assert "modules" in str(caught.value)


def test_an_encoder_that_changed_in_place_is_refused(make_encoder: MakeEncoder, tmp_path: Path) -> None:
    shutil.copytree(make_encoder(), tmp_path / "encoder")
    DenseRetriever.build(words(5), encoder=tmp_path / "encoder").save(tmp_path / "index")
    shutil.rmtree(tmp_path / "encoder")
    shutil.copytree(make_encoder(seed=1), tmp_path / "encoder")
    with pytest.raises(ConfigError, match="vectors of different encoders cannot be compared"):
        load_index(tmp_path / "index")


def test_a_window_or_prompt_that_changed_is_refused(make_encoder: MakeEncoder, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(make_encoder()), device="cpu")
    DenseRetriever.build(words(5), encoder=model).save(tmp_path / "index")
    with pytest.raises(ConfigError, match="ready-made model"):
        load_index(tmp_path / "index")
    assert len(DenseRetriever.load(tmp_path / "index", encoder=make_encoder())) == 5
    model.max_seq_length = 16
    with pytest.raises(ConfigError, match="max_length 32 / 16"):
        DenseRetriever.load(tmp_path / "index", encoder=model)
    model.max_seq_length = 32
    model.prompts["query"] = "find: "
    with pytest.raises(ConfigError, match="prompts"):
        DenseRetriever.load(tmp_path / "index", encoder=model)


def test_a_moved_encoder_is_welcome(make_encoder: MakeEncoder, tmp_path: Path) -> None:
    shutil.copytree(make_encoder(), tmp_path / "elsewhere")
    DenseRetriever.build(words(5), encoder=make_encoder()).save(tmp_path / "index")
    assert len(DenseRetriever.load(tmp_path / "index", encoder=tmp_path / "elsewhere")) == 5


def test_pickled_weights_are_refused(make_encoder: MakeEncoder, tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    shutil.copytree(make_encoder(), folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="pickled"):
        DenseRetriever.build(words(3), encoder=folder)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(ConfigError, match=r"no .*safetensors"):
        DenseRetriever.build(words(3), encoder=folder)
    inner = tmp_path / "inner"
    shutil.copytree(make_encoder(), inner)
    listing = json.loads((inner / "modules.json").read_text())
    (inner / listing[1]["path"] / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(ConfigError, match="pickled"):
        DenseRetriever.build(words(3), encoder=inner)


def test_wrong_names_are_refused_before_work(make_encoder: MakeEncoder) -> None:
    with pytest.raises(ConfigError, match="flat, hnsw, ivfpq, numpy"):
        DenseRetriever.build(words(3), encoder=make_encoder(), index="annoy")
    with pytest.raises(ConfigError, match="does not exist"):
        DenseRetriever.build(words(3), encoder="./no/such/folder")
    with pytest.raises(ConfigError, match="k is 0"):
        DenseRetriever.build(words(3), encoder=make_encoder()).search_texts({"q": "a"}, k=0)


def test_vectors_that_are_not_finite_stop_the_build(make_encoder: MakeEncoder) -> None:
    import torch
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(make_encoder()), device="cpu")
    with torch.no_grad():
        model[0].auto_model.embeddings.word_embeddings.weight[model.tokenizer.convert_tokens_to_ids("z")] = float("nan")
    with pytest.raises(DataError, match="not finite for 1 of 2"):
        DenseRetriever.build([Passage("a", "abc"), Passage("b", "z")], encoder=model)
