"""Scores of several systems over the same judged queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from utilitune.errors import ConfigError
from utilitune.evaluation.clusters import Clusters
from utilitune.evaluation.significance import (
    RESAMPLES,
    SEED,
    Significance,
    bootstrap_interval,
    significance_family,
)
from utilitune.evaluation.table import Row, Table

LEFT_OUT = "missing or empty, left out as asked"
"""Count of the queries that ``only_answered`` takes out of every mean."""


@dataclass(frozen=True)
class Change:
    """What a change of system did to one query.

    Attributes:
        query_id: The query.
        before: Value of the first system.
        after: Value of the second.
    """

    query_id: str
    before: float
    after: float


@dataclass
class Evaluation:
    """What ``evaluate`` returns.

    Attributes:
        measures: Measure names, in the order asked for.
        per_query: ``{system: {measure: {query_id: value}}}``; a system lacks the measures that it has no data
            for.
        counts: ``{system: {kind: count}}``: scored, answered, missing, unjudged, tied, …
        seed: Seed of intervals and tests.
        clusters: ``{query_id: cluster}`` that intervals and tests take whole; ``None`` where each query stands for
            itself.
        notes: What a reader must know of how the numbers came about.
    """

    measures: list[str]
    per_query: dict[str, dict[str, dict[str, float]]]
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    seed: int = SEED
    clusters: Clusters | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def systems(self) -> list[str]:
        """System names, in the order given."""
        return list(self.per_query)

    def values(self, system: str, measure: str) -> dict[str, float]:
        """Return ``{query_id: value}`` of one system and measure.

        Args:
            system: System name.
            measure: Measure name as it was asked for.

        Returns:
            The values.

        Raises:
            ConfigError: If there are none, naming what there is.
        """
        if system not in self.per_query:
            raise ConfigError(f"no system named {system!r}; evaluated were: {', '.join(self.systems)}")
        if measure not in self.per_query[system]:
            have = ", ".join(self.per_query[system]) or "nothing"
            raise ConfigError(f"system {system!r} was not scored by {measure!r}; it was by: {have}")
        return self.per_query[system][measure]

    def mean(self, system: str, measure: str) -> float | None:
        """Return the mean over the scored queries, ``None`` when there is none."""
        values = self.values(system, measure)
        return sum(values.values()) / len(values) if values else None

    def means(self) -> dict[str, dict[str, float | None]]:
        """Return ``{system: {measure: mean}}``."""
        return {s: {m: self.mean(s, m) for m in measures} for s, measures in self.per_query.items()}

    def interval(self, system: str, measure: str) -> tuple[float, float] | None:
        """Return the 95 % bootstrap interval of a mean, ``None`` below two queries."""
        return bootstrap_interval(self.values(system, measure), clusters=self.clusters, seed=self.seed)

    def coverage(self, system: str) -> str:
        """Return what stands beside every mean: ``scored 2 = 1 answered + 1 missing; 1 unjudged``."""
        return coverage(self.counts.get(system, {}))

    def compare(
        self, before: str, after: str, measures: Sequence[str] | None = None, *, resamples: int = RESAMPLES
    ) -> dict[str, Significance]:
        """Compare two systems on the same queries, p corrected over the measures.

        Args:
            before: The system to start from.
            after: The system to judge.
            measures: Measure names; those that both have when not given.
            resamples: Draws of test and interval.

        Returns:
            One comparison a measure.

        Raises:
            ConfigError: For an unknown system or measure.
        """
        if measures is None:
            self._check(before, after)
            measures = [m for m in self.per_query[before] if m in self.per_query[after]]
        pairs = []
        for measure in measures:
            first, second = self.values(before, measure), self.values(after, measure)
            # They differ only under only_answered.
            common = [query_id for query_id in first if query_id in second]
            pairs.append(({q: first[q] for q in common}, {q: second[q] for q in common}))
        family = significance_family(pairs, clusters=self.clusters, resamples=resamples, seed=self.seed)
        return dict(zip(measures, family, strict=True))

    def changes(self, before: str, after: str, measure: str, limit: int = 10) -> list[Change]:
        """Return the queries that changed most, largest first (equal changes by id).

        Args:
            before: The system to start from.
            after: The system to judge.
            measure: Measure name.
            limit: How many.

        Returns:
            At most ``limit`` queries whose value changed.
        """
        first, second = self.values(before, measure), self.values(after, measure)
        moved = [Change(q, first[q], second[q]) for q in sorted(first) if q in second and first[q] != second[q]]
        return sorted(moved, key=lambda change: -abs(change.after - change.before))[:limit]

    def rows(self, *, block: str = "", systems: Sequence[str] | None = None) -> list[Row]:
        """Return the systems as rows of a ``Table``.

        Args:
            block: Block of the table that they stand in, for instance the retriever.
            systems: Which, in which order; all when not given.

        Returns:
            One row a system.

        Raises:
            ConfigError: For an unknown system.
        """
        names = list(systems) if systems is not None else self.systems
        self._check(*names)
        return [Row(name, self.per_query[name], block, self.counts.get(name, {})) for name in names]

    def table(self, title: str = "", *, before: str | None = None, after: Sequence[str] = ()) -> Table:
        """Return everything as one table; ``before`` and ``after`` as in ``Table``."""
        return Table(
            title,
            self.measures,
            self.rows(),
            before=before,
            after=tuple(after),
            notes=self.notes,
            seed=self.seed,
            clusters=self.clusters,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values (plain numbers, no NaN)."""
        return {**asdict(self), "means": self.means()}

    def _check(self, *systems: str) -> None:
        unknown = [name for name in systems if name not in self.per_query]
        if unknown:
            raise ConfigError(
                f"no system named {', '.join(map(repr, unknown))}; evaluated were: {', '.join(self.systems)}"
            )


def answer_coverage(counts: Mapping[str, int]) -> str:
    """Say which answers a mean is over.

    Args:
        counts: Counts of one system, with those of its answers.

    Returns:
        One line.
    """
    scored, missing = counts["answers scored"], counts.get("answers missing", 0)
    line = f"scored {scored} = {scored - missing} given + {missing} missing"
    rest = {"abstained": "answers abstained", "empty": "answers empty", "cut": "answers cut"}
    told = [f"{counts[kind]} {word}" for word, kind in rest.items() if counts.get(kind)]
    if other := counts.get("answers to other queries"):
        told.append(f"{other} to other queries")
    return "; ".join([line, *told])


def coverage(counts: Mapping[str, int]) -> str:
    """Say which queries a mean is over.

    Args:
        counts: Counts of one system.

    Returns:
        One line.
    """
    empty = counts.get("empty", 0)
    answered = f"{counts.get('answered', 0)} answered" + (f" ({empty} with an empty list)" if empty else "")
    line = f"scored {counts.get('scored', 0)} = {answered} + {counts.get('missing', 0)} missing"
    line += f"; {counts.get('unjudged', 0)} unjudged"
    return f"{line}; {counts[LEFT_OUT]} {LEFT_OUT}" if counts.get(LEFT_OUT) else line
