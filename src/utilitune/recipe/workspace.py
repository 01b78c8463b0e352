"""What the stages of one run share: folders, the data set, its splits, models loaded at most once."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from utilitune.errors import ConfigError, DataError
from utilitune.recipe.schema import SAMPLE
from utilitune.recipe.stage_folder import read_record
from utilitune.records import Dataset, Query, file_hash, load_dataset, read_json

if TYPE_CHECKING:
    from utilitune.generator import Generator
    from utilitune.recipe.schema import Recipe
    from utilitune.retrieval import Retriever

DATA_FILES = ("corpus.*", "queries.*", "qrels*", "qrels/*")


class Workspace:
    """The output folder of a recipe and everything loaded from it.

    Attributes:
        recipe: The recipe.
        out: Its output folder.
        models: Identities of the models that the stage at work has used, by what they are to it.
    """

    recipe: Recipe
    out: Path
    models: dict[str, dict[str, object]]

    def __init__(self, recipe: Recipe) -> None:
        """Bind to ``recipe.out``; nothing is read or made yet."""
        self.recipe = recipe
        self.out = recipe.out
        self.models = {}

    def folder(self, stage: str) -> Path:
        """Return the folder of a stage."""
        return self.out / stage

    def done(self, stage: str) -> bool:
        """Tell whether a stage has finished."""
        return read_record(self.folder(stage)).get("status") == "done"

    @property
    def store(self) -> Path:
        """The label store that all stages share."""
        return self.out / "store.sqlite"

    @property
    def data(self) -> Path:
        """The BEIR folder: the given one, or where the sample world was written."""
        return self.folder("data") / "world" if self.recipe.data == SAMPLE else self.recipe.data

    def input_files(self) -> dict[str, str]:
        """Return hashes of the data files outside the output folder; none for the sample world."""
        if self.recipe.data == SAMPLE:
            return {}
        files = sorted({path for pattern in DATA_FILES for path in self.recipe.data.glob(pattern) if path.is_file()})
        return {str(path.relative_to(self.recipe.data)): file_hash(path) for path in files}

    @cached_property
    def dataset(self) -> Dataset:
        """The data set."""
        return load_dataset(self.data, on_bad_line=self.recipe.on_bad_line)

    @property
    def split(self) -> dict[str, list[str]]:
        """Query ids by part: ``train_turns``, ``test_turns``, ``train_questions``, ``test_questions``."""
        path = self.folder("data") / "split.json"
        if not path.exists():
            raise ConfigError(f"{path} is not there: stage 'data' has not run yet; run it first")
        return {name: list(ids) for name, ids in read_json(path).items()}

    def queries(self, part: str, limit: int | None = None) -> list[Query]:
        """Return the queries of a part; ``limit`` picks a fixed pseudo-random subset that grows with the limit."""
        by_id = {query.id: query for query in self.dataset.queries}
        found = [by_id[query_id] for query_id in self.split[part]]
        return found if limit is None else _picked(found, self.recipe.seed, limit)

    def transfer(self, folder: Path) -> tuple[Dataset, list[Query]]:
        """Return a data set of ``evaluation.transfer`` and its conversational turns, no more than the recipe takes."""
        dataset = load_dataset(folder, on_bad_line=self.recipe.on_bad_line)
        turns = [query for query in dataset.queries if query.history]
        limit = self.recipe.evaluation.transfer_turns
        if limit is None:
            return dataset, turns
        return dataset, _picked(turns, self.recipe.seed, limit)

    def transfer_files(self) -> dict[str, str]:
        """Return hashes of the data files of ``evaluation.transfer``."""
        return {
            f"{folder}/{path.relative_to(folder)}": file_hash(path)
            for folder in self.recipe.evaluation.transfer
            for path in sorted({path for pattern in DATA_FILES for path in folder.glob(pattern) if path.is_file()})
        }

    def note(self, role: str, model: Generator) -> None:
        """Put the identity of a model into the record of the stage at work."""
        self.models[role] = model.identity.as_dict()

    @property
    def generator(self) -> Generator:
        """The generator whose utility is the supervision."""
        self.note("generator", self._generator)
        return self._generator

    def release(self) -> None:
        """Drop the loaded models: training needs the memory, and a later stage loads them again in seconds."""
        self.__dict__.pop("_generator", None)
        self.__dict__.pop("retrievers", None)
        gc.collect()

    @cached_property
    def _generator(self) -> Generator:
        from utilitune.generator import load_generator

        return load_generator(self.recipe.generator)

    def rewriter_base(self) -> Generator:
        """Return the untuned model that rewrites; the generator itself when the recipe names one for both."""
        from utilitune.generator import load_generator

        base = self.recipe.rewriter.base_spec
        model = self._generator if base == self.recipe.generator else load_generator(base)
        self.note("rewriter.base", model)
        return model

    @cached_property
    def retrievers(self) -> dict[str, Retriever]:
        """The retrievers, from their index folders.

        Returns:
            ``{name: retriever}``.

        Raises:
            DataError: If an index was built from another corpus.
        """
        from utilitune.retrieval import corpus_hash, load_index
        from utilitune.retrieval.index_folder import read_manifest

        corpus = corpus_hash(self.dataset.corpus)
        for name in self.recipe.retrievers:
            folder = self.folder("index") / name
            if read_manifest(folder).get("corpus_sha256") != corpus:
                raise DataError(f"{folder} is an index of another corpus than {self.data}; run stage 'index' again")
        return {name: load_index(self.folder("index") / name) for name in self.recipe.retrievers}


def judged_part(dataset: Dataset, queries: Sequence[Query]) -> Dataset:
    """Return the part of a data set that those queries make which are judged."""
    return dataset.subset([query for query in queries if dataset.qrels.get(query.id)])


def _picked(queries: list[Query], seed: int, limit: int) -> list[Query]:
    """Return a fixed pseudo-random subset that grows with the limit."""
    return sorted(queries, key=lambda query: hashlib.sha256(f"{seed}\0{query.id}".encode()).digest())[:limit]
