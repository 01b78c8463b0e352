"""What the stages of one run share: folders, the data set, its splits, models loaded at most once."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utilitune.errors import ConfigError
from utilitune.records import Dataset, Query, file_hash, load_dataset

if TYPE_CHECKING:
    from utilitune.generator import Generator
    from utilitune.recipe.schema import Recipe
    from utilitune.retrieval import Retriever

SAMPLE = Path("sample")
DATA_FILES = ("corpus.*", "queries.*", "qrels*", "qrels/*")


class Workspace:
    """The output folder of a recipe and everything loaded from it."""

    def __init__(self, recipe: Recipe) -> None:
        """Bind to ``recipe.out``; nothing is read or made yet."""
        self.recipe = recipe
        self.out = recipe.out

    def folder(self, stage: str) -> Path:
        """Return the folder of a stage."""
        return self.out / stage

    @property
    def store(self) -> Path:
        """The label store that all stages share."""
        return self.out / "store.sqlite"

    @property
    def data(self) -> Path:
        """The BEIR folder: the given one, or where the sample world was written."""
        return self.folder("data") / "world" if self.recipe.data == SAMPLE else self.recipe.data

    def inputs(self, stage: str) -> dict[str, str]:
        """Return hashes of what a stage reads from outside the output folder."""
        if stage != "data" or self.recipe.data == SAMPLE:
            return {}
        files = sorted({path for pattern in DATA_FILES for path in self.recipe.data.glob(pattern) if path.is_file()})
        return {str(path.relative_to(self.recipe.data)): file_hash(path) for path in files}

    @cached_property
    def dataset(self) -> Dataset:
        """The data set."""
        return load_dataset(self.data)

    @cached_property
    def split(self) -> dict[str, list[str]]:
        """Query ids by part: ``train_turns``, ``test_turns``, ``train_questions``, ``test_questions``."""
        path = self.folder("data") / "split.json"
        if not path.exists():
            raise ConfigError(f"{path} is not there: stage 'data' has not run yet; run it first")
        parts = json.loads(path.read_text(encoding="utf-8"))
        return {name: list(ids) for name, ids in parts.items()}

    def queries(self, part: str, limit: int | None = None) -> list[Query]:
        """Return the queries of a part; ``limit`` picks a fixed pseudo-random subset that grows with the limit."""
        ids = self.split[part]
        if limit is not None:
            ids = sorted(ids, key=lambda query_id: hashlib.sha256(f"{self.recipe.seed}\0{query_id}".encode()).digest())
            ids = ids[:limit]
        by_id = {query.id: query for query in self.dataset.queries}
        return [by_id[query_id] for query_id in ids]

    @cached_property
    def generator(self) -> Generator:
        """The generator whose utility is the supervision."""
        from utilitune.generator import load_generator

        return load_generator(self.recipe.generator)

    @cached_property
    def retrievers(self) -> dict[str, Retriever]:
        """The retrievers, from their index folders."""
        from utilitune.retrieval import load_index

        return {name: load_index(self.folder("index") / name) for name in self.recipe.retrievers}

    def section(self, name: str) -> Any:
        """Return one section of the recipe as JSON-ready values."""
        return self.recipe.model_dump(mode="json")[name]
