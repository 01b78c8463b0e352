"""Training groups: one query, its candidate passages, what each was worth, and the targets made of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from utilitune.errors import ConfigError, DataError
from utilitune.records import Dataset, Labels, Passage, Query, Run
from utilitune.rerank.rescale import RESCALES, rescale

# Spreads below this, relative to the size of the numbers, are rounding noise of fp32 labels, not a
# preference.
RELATIVE_NOISE = 1e-6

_Table = dict[str, dict[str, dict[str, float]]]  # query id -> passage id -> label set -> utility


@dataclass(frozen=True)
class Group:
    """The candidates of one query.

    Attributes:
        query_id: The query.
        query: Its text as the reranker reads it.
        passage_ids: Candidates, in first-stage order.
        passages: Their texts (title and body).
        utilities: One finite number a candidate; of several utilities the mean of their z-scores.
        targets: What the loss is given, one a candidate.
        conversation: Unit of the train/dev split; turns of one conversation never fall on both sides.
    """

    query_id: str
    query: str
    passage_ids: tuple[str, ...]
    passages: tuple[str, ...]
    utilities: tuple[float, ...]
    targets: tuple[float, ...]
    conversation: str = ""

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self.passage_ids)


@dataclass(frozen=True)
class Groups(Sequence[Group]):
    """Groups with an account of what did not become one.

    Attributes:
        groups: The groups, in query order of the labels.
        drops: Counts by kind: label rows not used, candidates merged or left out, queries dropped.
        rule: Rescaling rule of the targets.
        temperature: Its temperature.
        label_sets: The label sets that the utilities came from.
    """

    groups: list[Group]
    drops: dict[str, int] = field(default_factory=dict)
    rule: str = "min-max"
    temperature: float = 1.0
    label_sets: tuple[str, ...] = ()

    def __getitem__(self, index: int | slice) -> Group | list[Group]:  # type: ignore[override]
        """Return a group, or groups for a slice."""
        return self.groups[index]

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.groups)

    def __iter__(self) -> Iterator[Group]:
        """Iterate over the groups."""
        return iter(self.groups)

    @property
    def pairs(self) -> int:
        """Number of (query, passage) pairs."""
        return sum(group.size for group in self.groups)

    def rescaled(self, rule: str, temperature: float = 1.0) -> Groups:
        """Return the same groups with targets made from the utilities by another rule.

        Args:
            rule: A name in ``RESCALES``.
            temperature: For ``softmax``, > 0.

        Returns:
            New groups; utilities are untouched.
        """
        groups = [replace(group, targets=rescale(group.utilities, rule, temperature)) for group in self.groups]
        return replace(self, groups=groups, rule=rule, temperature=temperature)


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
) -> Groups:
    """Make training groups of utility labels.

    Only single-passage rows with status ``ok`` and a finite number count. Candidates with the same text are
    one candidate (mean utility). Several utilities are z-scored within the query and averaged; a candidate
    must have all of them. A query needs two candidates of different utility. Everything left out is counted
    in ``drops``.

    Args:
        labels: Utility labels.
        dataset: Holds the texts of the labelled queries and passages.
        utilities: Utility names, or whole label sets (``name@hash``) where a name is ambiguous; all when
            ``None``.
        rescale: Rule of the targets: ``min-max``, ``z-score``, ``rank``, ``softmax``, ``none``.
        temperature: For ``softmax``, > 0.
        max_group: Keep at most this many candidates a query, the first ones in first-stage order.
        run: First-stage run: keeps its candidates alone, in its order. Without it: label order.
        query_texts: What the reranker reads instead of ``Query.text``, by query id (rewritten questions).

    Returns:
        At least one group.

    Raises:
        ConfigError: For an unknown rule or ``max_group`` < 2.
        DataError: If labels do not fit the data set, a utility is unknown or ambiguous, or no group is left.
    """
    if rescale not in RESCALES:
        raise ConfigError(f"unknown rescale rule {rescale!r}; known: {', '.join(RESCALES)}")
    if max_group is not None and max_group < 2:
        raise ConfigError(f"max_group is {max_group}; a group needs at least 2 candidates")
    drops: Counter[str] = Counter()
    chosen = _choose_label_sets(labels, utilities)
    table = _read_table(labels, chosen, drops)
    queries = {query.id: query for query in dataset.queries}
    passages = dataset.passages()
    _check_known(table, queries, passages)
    groups = []
    for query_id, candidates in table.items():
        ordered = _in_order(candidates, run.get(query_id, []) if run is not None else None, drops)
        query = queries[query_id]
        text = (query_texts or {}).get(query_id, query.text)
        group = _group(query, text, ordered, passages, chosen, max_group, drops)
        if group is not None:
            groups.append(group)
    if not groups:
        raise DataError(
            f"no training group is left of {len(labels)} label rows ({_spell(drops)}). A query needs two "
            "passages or more with different utilities; label more candidates a query or another utility"
        )
    made = Groups(groups, dict(drops), "none", 1.0, tuple(chosen))
    return made.rescaled(rescale, temperature)


def _choose_label_sets(labels: Labels, utilities: Sequence[str] | None) -> list[str]:
    known: dict[str, list[str]] = {}
    for row in labels:
        sets = known.setdefault(row.name, [])
        if row.label_set not in sets:
            sets.append(row.label_set)
    listed = ", ".join(label_set for sets in known.values() for label_set in sets) or "none"
    if utilities is not None and not utilities:
        raise ConfigError(f"utilities is empty; these labels hold: {listed}")
    chosen: list[str] = []
    for name in known if utilities is None else utilities:
        sets = known.get(name) or [name for sets in known.values() if name in sets]
        if not sets:
            raise DataError(f"no labels of utility {name!r}; these labels hold: {listed}")
        if len(sets) > 1:
            raise DataError(
                f"utility {name!r} was labelled in {len(sets)} ways ({', '.join(sets)}): another generator, "
                "prompt or parameters. Name one of these label sets"
            )
        if sets[0] not in chosen:
            chosen.append(sets[0])
    if not chosen:
        raise DataError("the labels are empty: nothing to train on; run the labelling step first")
    return chosen


def _read_table(labels: Labels, chosen: Sequence[str], drops: Counter[str]) -> _Table:
    wanted = set(chosen)
    table: _Table = {}
    for row in labels:
        if row.label_set not in wanted:
            drops["rows of other utilities"] += 1
        elif len(row.passage_ids) != 1:
            drops["rows of passage sets"] += 1
        elif row.status != "ok" or row.utility is None:
            drops[f"rows {row.status if row.status != 'ok' else 'without a number'}"] += 1
        elif not math.isfinite(row.utility):
            drops["rows not finite"] += 1
        else:
            cell = table.setdefault(row.query_id, {}).setdefault(row.passage_ids[0], {})
            if row.label_set in cell:
                drops["rows repeated"] += 1
            cell[row.label_set] = float(row.utility)
    return table


def _check_known(table: _Table, queries: Mapping[str, Query], passages: Mapping[str, Passage]) -> None:
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


def _group(
    query: Query,
    text: str,
    candidates: Mapping[str, Mapping[str, float]],
    passages: Mapping[str, Passage],
    chosen: Sequence[str],
    max_group: int | None,
    drops: Counter[str],
) -> Group | None:
    merged: dict[str, list[tuple[str, list[float]]]] = {}
    for passage_id, numbers in candidates.items():
        body = passages[passage_id].full_text
        if len(numbers) < len(chosen):
            drops["candidates lacking a utility"] += 1
        elif not body.strip():
            drops["candidates without text"] += 1
        else:
            # Same words, same case: what a reader cannot tell apart must not get two targets.
            merged.setdefault(" ".join(body.split()), []).append((passage_id, [numbers[name] for name in chosen]))
    drops["candidates merged, same text"] += sum(len(same) - 1 for same in merged.values())
    kept = list(merged.values())
    if max_group is not None and len(kept) > max_group:
        drops["candidates over max_group"] += len(kept) - max_group
        kept = kept[:max_group]
    if len(kept) < 2:
        drops["queries with fewer than 2 candidates"] += 1
        return None
    columns = [
        [sum(numbers[column] for _, numbers in same) / len(same) for same in kept] for column in range(len(chosen))
    ]
    utilities = _combine(columns)
    if _flat(utilities):
        drops["queries without variance"] += 1
        return None
    ids = tuple(same[0][0] for same in kept)
    texts = tuple(passages[passage_id].full_text for passage_id in ids)
    return Group(query.id, text, ids, texts, utilities, utilities, query.conversation)


def _combine(columns: Sequence[Sequence[float]]) -> tuple[float, ...]:
    if len(columns) == 1:
        return tuple(columns[0])
    scaled = [(0.0,) * len(column) if _flat(column) else rescale(column, "z-score") for column in columns]
    return tuple(sum(row) / len(scaled) for row in zip(*scaled, strict=True))


def _flat(utilities: Sequence[float]) -> bool:
    largest = max(abs(value) for value in utilities)
    return max(utilities) - min(utilities) <= RELATIVE_NOISE * max(largest, RELATIVE_NOISE)


def _spell(drops: Mapping[str, int]) -> str:
    return ", ".join(f"{kind}: {count}" for kind, count in drops.items() if count) or "nothing was dropped"
