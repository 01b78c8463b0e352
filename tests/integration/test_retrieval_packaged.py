"""The packaged encoder end to end: build, search, save, load, in every index."""

from __future__ import annotations

from pathlib import Path

import pytest

from utilitune.records import Passage, Query
from utilitune.retrieval import Bm25Retriever, DenseRetriever, fuse, load_index

pytestmark = pytest.mark.integration

CORPUS = [
    Passage("frost", "Each January the harbour of Velmar is closed by ice, and ships unload at Suthe."),
    Passage("mines", "Ostrana lives on copper and tin, dug from the hills behind the town."),
    Passage("poet", "Ilka Dorn, who wrote nine plays, was born over a bakery."),
    Passage("ferry", "A boat carries people and goats to the island twice a day."),
    Passage("blank", ""),
]
QUESTIONS = [
    Query("ice", "When is the port frozen?"),
    Query("metal", "What do the miners extract?"),
    Query("drama", "Who is the playwright?"),
    Query("boat", "How can I travel to the isle?"),
]
GOLD = {"ice": "frost", "metal": "mines", "drama": "poet", "boat": "ferry"}


@pytest.mark.parametrize("index", ["flat", "hnsw", "numpy"])
def test_meaning_is_found_without_shared_words(index: str, tmp_path: Path) -> None:
    retriever = DenseRetriever.build(CORPUS, index=index)
    run = retriever.search(QUESTIONS, k=3)
    assert {query_id: ranking[0][0] for query_id, ranking in run.items()} == GOLD
    assert retriever.settings["encoder"]["dimension"] == 384
    retriever.save(tmp_path / "index")
    assert load_index(tmp_path / "index").search(QUESTIONS, k=3) == run
    lexical = Bm25Retriever.build(CORPUS).search(QUESTIONS, k=3)
    assert fuse([run, lexical])["drama"][0][0] == "poet"
