"""FAISS and torch are loaded when vectors are wanted, not before; without FAISS there is a way."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from utilitune.errors import ConfigError
from utilitune.records import Passage
from utilitune.retrieval import DenseRetriever
from utilitune.retrieval.vector_index import load_faiss


def test_bm25_loads_neither_torch_nor_faiss() -> None:
    program = (
        "import sys, utilitune.retrieval as r\n"
        "from utilitune.records import Passage\n"
        "assert r.DenseRetriever and r.load_index\n"
        "assert r.Bm25Retriever.build([Passage('a', 'velmar')]).search_texts({'q': 'Velmar'})['q'][0][0] == 'a'\n"
        "print([name for name in ('torch', 'faiss', 'transformers', 'sentence_transformers') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_one_thread_on_darwin_only(monkeypatch: pytest.MonkeyPatch) -> None:
    import faiss

    before = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(3)
        monkeypatch.setattr(platform, "system", lambda: "Linux")
        assert load_faiss().omp_get_max_threads() == 3
        monkeypatch.setattr(platform, "system", lambda: "Darwin")
        assert load_faiss().omp_get_max_threads() == 1
    finally:
        faiss.omp_set_num_threads(before)


def test_without_faiss(monkeypatch: pytest.MonkeyPatch, make_encoder: Callable[..., Path], tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    corpus = [Passage("a", "velmar"), Passage("b", "suthe")]
    with pytest.raises(ConfigError, match="index='numpy'"):
        DenseRetriever.build(corpus, encoder=make_encoder())
    DenseRetriever.build(corpus, encoder=make_encoder(), index="numpy").save(tmp_path / "index")
    run = DenseRetriever.load(tmp_path / "index").search_texts({"q": "suthe"}, k=5)
    assert [pid for pid, _ in run["q"]] == ["b", "a"]
