"""Stages ``data`` and ``index``: the world, its splits, its indexes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from utilitune.errors import DataError
from utilitune.progress import say
from utilitune.recipe.schema import SAMPLE, Bm25Config, DenseConfig, Recipe
from utilitune.recipe.stage import Stage
from utilitune.recipe.workspace import Workspace
from utilitune.records import Passage, Query, split_by_field, split_queries, write_json

if TYPE_CHECKING:
    from utilitune.retrieval import Retriever


def _split(queries: Sequence[Query], recipe: Recipe) -> tuple[list[Query], list[Query]]:
    parts = None if recipe.split.by == "conversation" else split_by_field(queries)
    if parts is None and recipe.split.by == "field":
        raise DataError("split.by is 'field', and not every query has a field 'split'; add it, or set split.by=auto")
    return parts or split_queries(queries, test=recipe.split.test, seed=recipe.seed)


def _make_data(workspace: Workspace) -> Mapping[str, Any]:
    recipe = workspace.recipe
    if recipe.data == SAMPLE:
        from utilitune.sample import write_sample

        sample = recipe.sample
        # What an interrupted stage left; the folder is the stage's own.
        shutil.rmtree(workspace.data, ignore_errors=True)
        write_sample(
            workspace.data,
            passages=sample.passages,
            questions=sample.questions,
            conversations=sample.conversations,
            seed=sample.seed,
        )
    dataset = workspace.dataset
    train, test = _split(dataset.queries, recipe)
    shared = {query.conversation for query in train} & {query.conversation for query in test}
    if shared:
        raise DataError(f"{len(shared)} conversation(s) are in both splits, for example {min(shared)}")
    parts = {
        "train_turns": [query.id for query in train if query.history],
        "test_turns": [query.id for query in test if query.history],
        "train_questions": [query.id for query in train if not query.history],
        "test_questions": [query.id for query in test if not query.history],
    }
    write_json(workspace.folder("data") / "split.json", parts)
    # Later stages read the files of a given folder where they lie: this makes them see that one has changed.
    write_json(workspace.folder("data") / "inputs.json", workspace.input_files())
    sizes = {name: len(ids) for name, ids in parts.items()}
    return {"passages": len(dataset.corpus), "judged": len(dataset.qrels), **sizes, **dataset.counts}


def build_index(config: Bm25Config | DenseConfig, corpus: Sequence[Passage]) -> Retriever:
    """Build a retriever as the recipe describes it."""
    from utilitune.retrieval import Bm25Retriever, DenseRetriever

    if isinstance(config, Bm25Config):
        return Bm25Retriever.build(corpus, k1=config.k1, b=config.b, engine=config.engine)
    return DenseRetriever.build(corpus, encoder=config.encoder, index=config.index)


def _build_indexes(workspace: Workspace) -> Mapping[str, Any]:
    for name, config in workspace.recipe.retrievers.items():
        say(f"index {name}: {config.kind}")
        build_index(config, workspace.dataset.corpus).save(workspace.folder("index") / name)
    return {"indexes": len(workspace.recipe.retrievers), "passages": len(workspace.dataset.corpus)}


DATA = Stage(
    name="data",
    about="read or make the data set, check it, split it",
    needs=(),
    keys=("data", "on_bad_line", "sample", "split", "seed"),
    code=("records", "sample"),
    action=_make_data,
)
INDEX = Stage(
    name="index",
    about="build the retrievers' indexes",
    needs=("data",),
    keys=("retrievers",),
    code=("records", "retrieval"),
    action=_build_indexes,
)
