"""The work list of labelling: which passage sets, in which order, in which chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from utilitune.errors import DataError
from utilitune.records.dataset import Dataset
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Run

Item = tuple[Query, tuple[Passage, ...]]


def items_of_run(dataset: Dataset, run: Run, k: int, sets: bool) -> tuple[list[Item], Counter[str]]:
    """Pair every query with its retrieved passages.

    Args:
        dataset: Corpus and queries.
        run: Ranking a query.
        k: Number of passages a query, from the top.
        sets: Whether the top ``k`` make one set; else every passage is an item of its own.

    Returns:
        Items in (query, rank) order, and counts of what could not be paired.

    Raises:
        DataError: If nothing can be paired.
    """
    corpus = dataset.passages()
    counts: Counter[str] = Counter()
    items: list[Item] = []
    for query in dataset.queries:
        if query.id not in run:
            counts["queries_not_in_run"] += 1
            continue
        ids = list(dict.fromkeys(passage_id for passage_id, _ in run[query.id]))[:k]
        passages = [corpus[passage_id] for passage_id in ids if passage_id in corpus]
        counts["passages_not_in_corpus"] += len(ids) - len(passages)
        if not passages:
            counts["queries_without_passages"] += 1
        elif sets:
            items.append((query, tuple(passages)))
        else:
            items.extend((query, (passage,)) for passage in passages)
    known = {query.id for query in dataset.queries}
    counts["run_queries_not_in_dataset"] = sum(query_id not in known for query_id in run)
    if not items:
        raise DataError(_nothing(dataset, run, counts))
    return items, +counts


def _nothing(dataset: Dataset, run: Run, counts: Counter[str]) -> str:
    def few(ids: Sequence[str]) -> str:
        return ", ".join(ids[:3]) or "none"

    if counts["queries_not_in_run"] == len(dataset.queries):
        return (
            f"run and data set share no query: the run has {len(run)} (such as {few(list(run))}), "
            f"the data set {len(dataset.queries)} (such as {few([query.id for query in dataset.queries])}); "
            "give the run that was made from these queries"
        )
    if counts["passages_not_in_corpus"]:
        ids = [passage_id for ranking in run.values() for passage_id, _ in ranking]
        return (
            f"run and corpus share no passage: the run names {few(ids)}, the corpus "
            f"{few([passage.id for passage in dataset.corpus])}; give the run that was made from this corpus"
        )
    return "the run holds no passage for any query; retrieve first, with k of at least 1"


def chunks(items: Sequence[Item], size: int) -> Iterator[list[Item]]:
    """Cut ``items`` into chunks of whole queries, each of at least ``size`` items but the last.

    The cut depends on the items alone, never on what is stored already: a resumed run sees the same chunks.
    """
    chunk: list[Item] = []
    for _, group in groupby(items, key=lambda item: item[0].id):
        chunk.extend(group)
        if len(chunk) >= size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
