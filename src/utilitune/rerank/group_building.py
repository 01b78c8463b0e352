"""Makes training groups of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from utilitune.errors import ConfigError, DataError
from utilitune.records import Dataset, Labels, Passage, Query, Run
from utilitune.rerank.conversations import find_conversations
from utilitune.rerank.groups import Group, Groups
from utilitune.rerank.label_table import LabelTable, choose_label_sets, read_table
from utilitune.rerank.near_duplicates import near_duplicates_of_best
from utilitune.rerank.relevance import Relevance, relevant_passages
from utilitune.rerank.rescale import RESCALES
from utilitune.rerank.rescale import rescale as rescaled

# Spreads below this, relative to the size of the numbers, are rounding noise of fp32 labels, not a
# preference.
RELATIVE_NOISE = 1e-6
NEAR_DUPLICATE = 0.8


def build_groups(
    labels: Labels,
    dataset: Dataset,
    *,
    utilities: Sequence[str] | None = None,
    rescale: str = "min-max",
    temperature: float = 1.0,
    max_group: int | None = None,
    run: Run | None = None,
    query_texts: Mapping[str, str] | None = None,
    relevance: Relevance | None = None,
    near_duplicate: float | None = NEAR_DUPLICATE,
    keep_flat: bool = False,
) -> Groups:
    """Make training groups of utility labels.

    Only single-passage rows with status ``ok`` and a finite number count. Candidates with the same text are
    one candidate (mean utility). Several utilities are z-scored within the query and averaged; a candidate
    must have all of them. Candidates that nearly repeat the best one are no negatives: they are left out. A
    query needs two candidates of different utility. Everything left out is counted in ``drops``.

    Args:
        labels: Utility labels.
        dataset: Holds the texts of the labelled queries and passages.
        utilities: Utility names, or whole label sets (``name@hash``) where a name is ambiguous; all when
            ``None`` (but the one that ``relevance`` names).
        rescale: Rule of the targets: ``min-max``, ``z-score``, ``rank``, ``softmax``, ``none``.
        temperature: For ``softmax``, > 0.
        max_group: Keep at most this many candidates a query, the first ones in first-stage order.
        run: First-stage run: keeps its candidates alone, in its order. Without it: label order.
        query_texts: What the reranker reads instead of ``Query.text``, by query id (rewritten questions).
        relevance: Makes the one utility, UDCG's u in [0, 1], signed: u where relevant, -gamma u where not.
            Queries that the source says nothing about are left out.
        near_duplicate: Resemblance to the best candidate, in (0, 1], from which another one is left out;
            ``None`` keeps all.
        keep_flat: Keep queries that training learns nothing from, of one candidate or without variance:
            calibration reads them.

    Returns:
        At least one group.

    Raises:
        ConfigError: For an unknown rule, ``max_group`` < 2, a resemblance out of range, or several utilities
            to be signed.
        DataError: If labels do not fit the data set, a utility is unknown, ambiguous or cannot be signed, or
            no group is left.
    """
    if rescale not in RESCALES:
        raise ConfigError(f"unknown rescale rule {rescale!r}; known: {', '.join(RESCALES)}")
    if max_group is not None and max_group < 2:
        raise ConfigError(f"max_group is {max_group}; a group needs at least 2 candidates")
    if near_duplicate is not None and not 0 < near_duplicate <= 1:
        raise ConfigError(f"near_duplicate is {near_duplicate}; a resemblance lies within (0, 1], None keeps all")
    chosen, proxy = _choose(labels, utilities, relevance)
    building = _Building(dataset, chosen, proxy, max_group, relevance, near_duplicate, keep_flat)
    table = read_table(labels, [*chosen, *proxy], building.drops)
    queries = {query.id: query for query in dataset.queries}
    _check_known(table, queries, building.passages)
    groups = []
    for query_id, candidates in table.items():
        ordered = _in_order(candidates, run.get(query_id, []) if run is not None else None, building.drops)
        query = queries[query_id]
        group = building.group(query, (query_texts or {}).get(query_id, query.text), ordered)
        if group is not None:
            groups.append(group)
    drops = {kind: count for kind, count in building.drops.items() if count}
    if not groups:
        raise DataError(
            f"no training group is left of {len(labels)} label rows ({_spell(drops)}). A query needs two "
            "passages or more with different utilities; label more candidates a query or another utility"
        )
    made = Groups(groups, drops, "none", 1.0, tuple(chosen), relevance)
    return made.rescaled(rescale, temperature)


def _choose(
    labels: Labels, utilities: Sequence[str] | None, relevance: Relevance | None
) -> tuple[list[str], list[str]]:
    """Return the label sets that are the utility, and the one that is the proxy of relevance, if any."""
    if relevance is None:
        return choose_label_sets(labels, utilities), []
    relevance.check()
    proxy = choose_label_sets(labels, [relevance.proxy]) if relevance.proxy is not None else []
    if utilities is None:
        utilities = [name for name in dict.fromkeys(row.label_set for row in labels) if name not in proxy]
    chosen = choose_label_sets(labels, utilities) if utilities or not proxy else proxy
    if len(chosen) != 1:
        raise ConfigError(
            f"relevance signs one utility, found {len(chosen)} ({', '.join(chosen)}); name the one that is UDCG's u, "
            "such as utilities: [abstention]"
        )
    return chosen, proxy


def _check_known(table: LabelTable, queries: Mapping[str, Query], passages: Mapping[str, Passage]) -> None:
    lost = [query_id for query_id in table if query_id not in queries]
    if lost:
        raise DataError(
            f"{len(lost)} of {len(table)} labelled queries are not in the data set (first: {lost[0]!r}). "
            "Pass the data set that was labelled"
        )
    gone = sorted({passage_id for cells in table.values() for passage_id in cells if passage_id not in passages})
    if gone:
        raise DataError(
            f"{len(gone)} labelled passages are not in the corpus (first: {gone[0]!r}). "
            "Pass the data set that was labelled"
        )


def _in_order(
    candidates: dict[str, dict[str, float]], ranking: list[tuple[str, float]] | None, drops: Counter[str]
) -> dict[str, dict[str, float]]:
    if ranking is None:
        return candidates
    ordered = {passage_id: candidates[passage_id] for passage_id, _ in ranking if passage_id in candidates}
    drops["candidates not in the run"] += len(candidates) - len(ordered)
    return ordered


@dataclass
class _Building:
    """Turns the candidates of one query into a group; counts what it leaves out."""

    dataset: Dataset
    chosen: Sequence[str]
    proxy: Sequence[str]
    max_group: int | None
    relevance: Relevance | None
    near_duplicate: float | None
    keep_flat: bool
    passages: dict[str, Passage] = field(init=False)
    conversations: dict[str, str] = field(init=False)
    drops: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.passages = self.dataset.passages()
        self.conversations = find_conversations(self.dataset.queries)

    def group(self, query: Query, text: str, candidates: Mapping[str, Mapping[str, float]]) -> Group | None:
        same_text = self._merged(candidates)
        ids = tuple(same[0] for same in same_text)
        utilities = self._combined(same_text, candidates)
        if self.relevance is not None and ids:
            relevant = relevant_passages(
                self.relevance,
                query,
                {pid: self.passages[pid] for same in same_text for pid in same},
                self.dataset,
                {pid: candidates[pid][self.proxy[0]] for same in same_text for pid in same} if self.proxy else {},
            )
            if relevant is None:
                self.drops[f"queries that {self.relevance.source!r} says nothing about"] += 1
                return None
            self.drops["queries without a relevant candidate (kept)"] += not relevant
            helps = [any(pid in relevant for pid in same) for same in same_text]
            utilities = tuple(map(self.relevance.signed, utilities, helps))
        ids, utilities = self._without_near_duplicates(ids, utilities)
        if not ids or not self._worth_keeping(utilities):
            return None
        texts = tuple(self.passages[pid].full_text for pid in ids)
        return Group(query.id, text, ids, texts, utilities, utilities, self.conversations[query.id])

    def _merged(self, candidates: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
        """Return ids by text, in order, at most ``max_group`` texts."""
        merged: dict[str, list[str]] = {}
        for passage_id, numbers in candidates.items():
            body = self.passages[passage_id].full_text
            if len(numbers) < len({*self.chosen, *self.proxy}):
                self.drops["candidates lacking a utility"] += 1
            elif not body.strip():
                self.drops["candidates without text"] += 1
            else:
                # Same words, same case: what a reader cannot tell apart must not get two targets.
                merged.setdefault(" ".join(body.split()), []).append(passage_id)
        self.drops["candidates merged, same text"] += sum(len(same) - 1 for same in merged.values())
        kept = list(merged.values())
        if self.max_group is not None and len(kept) > self.max_group:
            self.drops["candidates over max_group"] += len(kept) - self.max_group
            kept = kept[: self.max_group]
        return kept

    def _combined(
        self, same_text: Sequence[Sequence[str]], candidates: Mapping[str, Mapping[str, float]]
    ) -> tuple[float, ...]:
        columns = [
            tuple(sum(candidates[pid][name] for pid in same) / len(same) for same in same_text) for name in self.chosen
        ]
        if len(columns) == 1 or not same_text:
            return columns[0]
        scaled = [(0.0,) * len(column) if _flat(column) else rescaled(column, "z-score") for column in columns]
        return tuple(sum(row) / len(scaled) for row in zip(*scaled, strict=True))

    def _without_near_duplicates(
        self, ids: tuple[str, ...], utilities: tuple[float, ...]
    ) -> tuple[tuple[str, ...], tuple[float, ...]]:
        if self.near_duplicate is None or len(ids) < 2:
            return ids, utilities
        texts = [self.passages[pid].full_text for pid in ids]
        left_out = near_duplicates_of_best(texts, utilities, self.near_duplicate)
        self.drops["candidates left out, near-duplicates of the best"] += len(left_out)
        kept = [index for index in range(len(ids)) if index not in left_out]
        return tuple(ids[index] for index in kept), tuple(utilities[index] for index in kept)

    def _worth_keeping(self, utilities: Sequence[float]) -> bool:
        if self.keep_flat:
            return True
        if len(utilities) < 2:
            self.drops["queries with fewer than 2 candidates"] += 1
            return False
        if _flat(utilities):
            self.drops["queries without variance"] += 1
            return False
        return True


def _flat(utilities: Sequence[float]) -> bool:
    largest = max(abs(value) for value in utilities)
    return max(utilities) - min(utilities) <= RELATIVE_NOISE * max(largest, RELATIVE_NOISE)


def _spell(drops: Mapping[str, int]) -> str:
    return ", ".join(f"{kind}: {count}" for kind, count in drops.items() if count) or "nothing was dropped"
