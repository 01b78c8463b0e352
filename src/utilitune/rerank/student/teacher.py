"""A reranker as the teacher: its logits become the targets, of labelled groups or of a run that nobody labelled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from utilitune.errors import DataError
from utilitune.records import Dataset, Passage, Run
from utilitune.rerank.conversations import find_conversations
from utilitune.rerank.groups import Group, Groups

if TYPE_CHECKING:
    from utilitune.rerank.reranker import UtilityReranker

RERANKER = "reranker"
"""Stands for the label sets of groups that a reranker scored."""


def taught(groups: Groups, reranker: UtilityReranker) -> Groups:
    """Return the groups with a reranker's logits in the place of utilities and targets.

    Args:
        groups: Groups of labels.
        reranker: The teacher.

    Returns:
        The same candidates. Groups with a logit that is not finite, or without variance, are dropped and counted.
    """
    pairs = [(group.query, passage) for group in groups for passage in group.passages]
    flat = iter(reranker.score_pairs(pairs))
    drops: Counter[str] = Counter(groups.drops)
    kept = []
    for group in groups:
        scores = tuple(next(flat) for _ in group.passages)
        if not all(map(math.isfinite, scores)):
            drops["queries whose teacher's scores are not finite"] += 1
        elif max(scores) == min(scores):
            drops["queries that the teacher scores alike"] += 1
        else:
            kept.append(replace(group, utilities=scores, targets=scores))
    return replace(groups, groups=kept, drops=dict(drops), rule="none", label_sets=(RERANKER,))


def groups_of_run(run: Run, dataset: Dataset, reranker: UtilityReranker, *, depth: int = 20) -> Groups:
    """Make training groups of a run that has no labels: a reranker scores its candidates.

    Args:
        run: First stage, the retriever that will be deployed.
        dataset: Holds the texts of queries and passages.
        reranker: The teacher.
        depth: Candidates a query, >= 2.

    Returns:
        At least one group, in the order of the run; candidates with the same text are one.

    Raises:
        DataError: If a text is missing, or no group is left.
    """
    passages = dataset.passages()
    queries = {query.id: query for query in dataset.queries}
    lost = [query_id for query_id in run if query_id not in queries]
    gone = [pid for ranked in run.values() for pid, _ in ranked[:depth] if pid not in passages]
    if lost or gone:
        raise DataError(
            f"{len(lost)} queries and {len(gone)} passages of the run are not in the data set (first: "
            f"{(lost + gone)[0]!r}); pass the data set that was searched"
        )
    units = find_conversations(dataset.queries)
    drops: Counter[str] = Counter()
    made = []
    for query_id, ranked in run.items():
        kept = _distinct([passages[pid] for pid, _ in ranked[:depth]], drops)
        if len(kept) < 2:
            drops["queries with fewer than 2 candidates"] += 1
            continue
        ids, texts, query = tuple(p.id for p in kept), tuple(p.full_text for p in kept), queries[query_id]
        zeros = (0.0,) * len(kept)
        made.append(Group(query_id, query.text, ids, texts, zeros, zeros, units[query_id]))
    groups = taught(Groups(made, dict(drops), "none"), reranker) if made else Groups([], dict(drops), "none")
    if not len(groups):
        raise DataError(f"no training group is left of {len(run)} queries of the run ({dict(drops)})")
    return groups


def _distinct(candidates: Sequence[Passage], drops: Counter[str]) -> list[Passage]:
    kept: dict[str, Passage] = {}
    for passage in candidates:
        text = " ".join(passage.full_text.split())
        if not text:
            drops["candidates without text"] += 1
        elif text in kept:
            drops["candidates merged, same text"] += 1
        else:
            kept[text] = passage
    return list(kept.values())
