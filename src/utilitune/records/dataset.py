"""A data set: corpus, queries, judgements."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Qrels


@dataclass(frozen=True)
class Dataset:
    """What ``load_dataset`` returns: everything of one BEIR folder.

    Attributes:
        corpus: Passages in file order, ids unique.
        queries: Queries in file order, ids unique.
        qrels: Judgements; empty when the folder has none (nothing in training needs them).
        name: Folder name.
        counts: What reading merged, skipped or found odd, by kind.
    """

    corpus: list[Passage]
    queries: list[Query]
    qrels: Qrels = field(default_factory=dict)
    name: str = ""
    counts: dict[str, int] = field(default_factory=dict)

    def passages(self) -> dict[str, Passage]:
        """Return the corpus by id."""
        return {passage.id: passage for passage in self.corpus}

    def subset(self, queries: list[Query]) -> Dataset:
        """Return the same corpus with these queries and their judgements only."""
        keep = {query.id for query in queries}
        qrels = {query_id: grades for query_id, grades in self.qrels.items() if query_id in keep}
        return replace(self, queries=list(queries), qrels=qrels)
