"""Reading a data folder as the options say: bad lines, train or test, an index that belongs to it."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from utilitune.errors import ConfigError, DataError

if TYPE_CHECKING:
    from utilitune.records import Dataset, Run
    from utilitune.retrieval import Retriever

TEST_SHARE, SEED = 0.3, 13
"""Of the split by conversation; those of ``records.split_queries`` and of a recipe."""


class BadLine(StrEnum):
    """What to do with a line that cannot be read."""

    error = "error"
    skip = "skip"


class Part(StrEnum):
    """Which queries a verb works on."""

    all = "all"
    train = "train"
    test = "test"


def open_data(folder: Path, on_bad_line: BadLine = BadLine.error, part: Part = Part.all) -> Dataset:
    """Read a BEIR folder and keep one part of its queries, with their judgements.

    Where every query has a field ``split`` that counts, and other values than ``train`` and ``test`` are in neither
    part; else whole conversations are told apart by a hash of their id, 30 % for testing, the same ones in every verb.

    Args:
        folder: BEIR folder.
        on_bad_line: Whether bad lines stop the run.
        part: Which queries.

    Returns:
        The data set; its corpus is whole.

    Raises:
        DataError: If anything is wrong with the data, or the part is empty.
    """
    from utilitune.records import load_dataset

    dataset = load_dataset(folder, on_bad_line="skip" if on_bad_line is BadLine.skip else "error")
    return part_of(dataset, folder, part)


def part_of(dataset: Dataset, folder: Path, part: Part) -> Dataset:
    """Keep one part of the queries, with their judgements, as ``open_data`` says.

    Args:
        dataset: All queries.
        folder: Where they come from.
        part: Which ones.

    Returns:
        The data set; its corpus is whole.

    Raises:
        DataError: If the part is empty.
    """
    from utilitune.records import split_by_field, split_queries

    if part is Part.all:
        return dataset
    queries = dataset.queries
    train, test = split_by_field(queries) or split_queries(queries, test=TEST_SHARE, seed=SEED)
    kept = train if part is Part.train else test
    if not kept:
        raise DataError(f"{folder}: --split {part.value}: no query is in this part of {len(dataset.queries)} queries")
    return dataset.subset(kept)


def open_index(folder: Path, dataset: Dataset) -> Retriever:
    """Load an index that was built over the data set's corpus.

    Args:
        folder: Index folder.
        dataset: The data set.

    Returns:
        The retriever.

    Raises:
        DataError: If the corpus is another one now.
    """
    from utilitune.retrieval import corpus_hash, load_index

    retriever = load_index(folder)
    built = getattr(retriever, "corpus_sha256", None)
    if built is not None and built != corpus_hash(dataset.corpus):
        raise DataError(
            f"{folder}: the index is of another corpus (or an earlier state of this one) than {dataset.name!r}; "
            f"build it again with `utilitune index`"
        )
    return retriever


def part_of_run(run: Run, dataset: Dataset, part: Part) -> Run:
    """Keep the queries of a run that are in a part; all of them where the part is ``all``.

    Args:
        run: A run of all queries, or of this part.
        dataset: One part of the queries.
        part: Which one.

    Returns:
        The run, in its order.

    Raises:
        DataError: If nothing is left.
    """
    from utilitune.records import Run

    if part is Part.all:
        return run
    known = {query.id for query in dataset.queries}
    kept = Run({query_id: ranking for query_id, ranking in run.items() if query_id in known})
    if run and not kept:
        raise DataError(f"--split {part.value}: none of the {len(run)} queries of the run is in this part")
    return kept


def trained_on(folder: Path) -> set[str]:
    """Return the ids of the queries that a trained reranker or rewriter learnt from or was chosen by.

    Args:
        folder: What ``utilitune train`` wrote.

    Returns:
        Query ids.

    Raises:
        ConfigError: If the folder does not say.
    """
    try:
        if (folder / "rewriter.json").is_file():
            training = json.loads((folder / "rewriter.json").read_text(encoding="utf-8"))["training"]
            return set(training["query_ids"])
        parts = json.loads((folder / "training.json").read_text(encoding="utf-8"))["queries"]
        return {query_id for ids in parts.values() for query_id in ids}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"--trained: {folder} does not say which queries it learnt from ({error!r}); give the --out of "
            "`utilitune train`"
        ) from error
