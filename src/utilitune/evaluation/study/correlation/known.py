"""From what was found, labelled and answered to lists and candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from utilitune.errors import DataError
from utilitune.evaluation.study.correlation.found import Found
from utilitune.evaluation.study.correlation.ideal import Candidate
from utilitune.evaluation.study.correlation.ranked_list import RankedList
from utilitune.evaluation.study.correlation.reader import Item, Reader, key_of
from utilitune.records.label import Labels
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Run
from utilitune.retrieval.fusion import fuse


@dataclass(frozen=True)
class Known:
    """What is known of every passage.

    Attributes:
        found: Questions and passages.
        reader: Answers.
        labels: Utilities of single passages.
        u: Name of UDCG's utility.
        others: Names of the further ones.
    """

    found: Found
    reader: Reader
    labels: Labels
    u: str
    others: tuple[str, ...]

    @cached_property
    def tables(self) -> dict[str, dict[str, dict[str, float]]]:
        """``{utility: {query_id: {passage_id: number}}}``."""
        return {name: self.labels.table(name) if self.labels else {} for name in (self.u, *self.others)}

    def number(self, name: str, query_id: str, passage_id: str) -> float | None:
        """Return a utility of a passage, ``None`` where there is none."""
        return self.tables[name].get(query_id, {}).get(passage_id)

    def gain(self, query_id: str, passage_id: str) -> float | None:
        """Return 1.0 where the answer from the passage alone is right, else 0.0; ``None`` where it is unknown."""
        outcome = self.reader.outcomes.get((query_id, (passage_id,)))
        return None if outcome is None else float(outcome.right)


def single_passages(found: Found) -> list[Item]:
    """Return every distinct question and passage, the passages of a question together."""
    items: dict[tuple[str, str], Item] = {}
    for query in found.queries:
        for own in found.passages.values():
            for passage in own[query.id]:
                items.setdefault((query.id, passage.id), (query, (passage,)))
    return list(items.values())


def passage_lists(found: Found, lengths: Sequence[int]) -> list[Item]:
    """Return the first passages of every system, for every list length, those of a question together."""
    return [(query, own[query.id][:k]) for query in found.queries for own in found.passages.values() for k in lengths]


def make_lists(known: Known, lengths: Sequence[int], counts: Counter[str]) -> list[RankedList]:
    """Make the lists whose answer is known.

    Args:
        known: What is known of the passages.
        lengths: List lengths.
        counts: Gets what was used and what is lacking, by kind.

    Returns:
        The lists, without metrics.

    Raises:
        DataError: If there is none.
    """
    lists = []
    for query, system, k, shown in _shown(known.found, lengths):
        outcome = known.reader.outcomes.get(key_of((query, shown)))
        counts["lists"] += 1
        counts["lists shorter than k"] += len(shown) < k
        counts["lists without an answer"] += outcome is None
        if outcome is None:
            continue
        ids = tuple(passage.id for passage in shown)
        us = tuple(known.number(known.u, query.id, each) for each in ids)
        counts["passages in lists"] += len(ids)
        counts["passages in lists without u"] += us.count(None)
        counts["passages in lists with u outside [0, 1]"] += sum(u is not None and not 0 <= u <= 1 for u in us)
        judged = known.found.relevant(query.id)
        lists.append(
            RankedList(
                query.id,
                system,
                k,
                ids,
                tuple(each in judged for each in ids),
                us,
                tuple(known.gain(query.id, each) for each in ids),
                {name: tuple(known.number(name, query.id, each) for each in ids) for name in known.others},
                outcome.right,
                outcome.abstained,
            )
        )
    if not lists:
        raise DataError("no list has an answer: there is nothing to correlate; the warnings say what failed")
    return lists


def candidates(known: Known) -> list[tuple[Query, list[Candidate]]]:
    """Return every passage of each question that a system found, in the order of their ranks fused."""
    found = []
    for query in known.found.queries:
        own = [passages[query.id] for passages in known.found.passages.values()]
        by_id = {passage.id: passage for passages in own for passage in passages}
        runs = [Run({query.id: [(each.id, -float(rank)) for rank, each in enumerate(each_own)]}) for each_own in own]
        judged = known.found.relevant(query.id)
        order = [passage_id for passage_id, _ in fuse(runs)[query.id]]
        found.append((query, [_candidate(known, query.id, by_id[each], each in judged) for each in order]))
    return found


def _candidate(known: Known, query_id: str, passage: Passage, relevant: bool) -> Candidate:
    return Candidate(
        passage,
        relevant,
        known.number(known.u, query_id, passage.id),
        known.gain(query_id, passage.id),
        {name: known.number(name, query_id, passage.id) for name in known.others},
    )


def _shown(found: Found, lengths: Sequence[int]) -> Iterator[tuple[Query, str, int, tuple[Passage, ...]]]:
    for query in found.queries:
        for system, passages in found.passages.items():
            for k in lengths:
                yield query, system, k, passages[query.id][:k]
