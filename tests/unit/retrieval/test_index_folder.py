"""Folders that are not what they should be are refused with a reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.records import Passage
from utilitune.retrieval import Bm25Retriever, DenseRetriever, load_index
from utilitune.retrieval.bm25_engines import ENGINES


@pytest.fixture
def folder(gazetteer: list[Passage], tmp_path: Path) -> Path:
    Bm25Retriever.build(gazetteer).save(tmp_path / "index")
    return tmp_path / "index"


def edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_missing_and_foreign_manifests(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"manifest\.json is missing"):
        load_index(tmp_path / "nowhere")
    manifest = folder / "manifest.json"
    for text, reason in (("{", "not JSON"), ("[]", "not the manifest"), ('{"kind": "bm25"}', "not the manifest")):
        manifest.write_text(text)
        with pytest.raises(DataError, match=reason):
            load_index(folder)


def test_other_formats_and_kinds(folder: Path) -> None:
    with pytest.raises(DataError, match="'bm25' index, expected 'dense'"):
        DenseRetriever.load(folder)
    edit(folder / "manifest.json", kind="colbert")
    with pytest.raises(DataError, match=r"'colbert'; known: bm25, dense"):
        load_index(folder)
    edit(folder / "manifest.json", format_version=99)
    with pytest.raises(DataError, match="format 99, this version reads 1"):
        load_index(folder)


def test_parts_that_do_not_belong_together(folder: Path, gazetteer: list[Passage], tmp_path: Path) -> None:
    for engine in ENGINES:
        mine, other = tmp_path / f"{engine}-mine", tmp_path / f"{engine}-other"
        Bm25Retriever.build(gazetteer, engine=engine).save(mine)
        Bm25Retriever.build(gazetteer[:4], engine=engine).save(other)
        ids = (mine / "ids.json").read_text()
        shutil.copy(other / "ids.json", mine)
        with pytest.raises(DataError, match=r"ids\.json holds 4 passages, the manifest says 7"):
            load_index(mine)
        (mine / "ids.json").write_text(ids)
        for path in other.iterdir():
            if path.name not in ("manifest.json", "ids.json"):
                shutil.copy(path, mine)
        with pytest.raises(DataError, match="holds 4 passages, the manifest says 7"):
            load_index(mine)


@pytest.mark.parametrize("name", ["ids.json", "indptr.csc.index.npy", "vocab.index.json", "params.index.json"])
@pytest.mark.parametrize("damage", ["missing", "garbage"])
def test_damaged_files(folder: Path, name: str, damage: str) -> None:
    if damage == "missing":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(b"\x00garbage")
    with pytest.raises(DataError, match="build"):
        load_index(folder)


def test_an_index_is_replaced_but_nothing_else_is(folder: Path, gazetteer: list[Passage], tmp_path: Path) -> None:
    Bm25Retriever.build(gazetteer[:3], engine="rank-bm25").save(folder)
    assert len(load_index(folder).search_texts({"q": "Velmar"})["q"]) == 2
    assert not (folder / "vocab.index.json").exists()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="is not an index"):
        Bm25Retriever.build(gazetteer).save(precious)
    with pytest.raises(ConfigError, match="is not an index"):
        Bm25Retriever.build(gazetteer).save(precious / "thesis.txt")
    assert (precious / "thesis.txt").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    Bm25Retriever.build(gazetteer).save(tmp_path / "empty")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "index", "precious"]
