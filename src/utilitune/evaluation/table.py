"""One table of a report: systems by measures, before ▶ after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from utilitune.errors import ConfigError
from utilitune.evaluation.clusters import Clusters
from utilitune.evaluation.pairwise import pairwise
from utilitune.evaluation.significance import SEED, Significance, bootstrap_intervals, significance_family

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Row:
    """One system of a table.

    Attributes:
        name: System name, unique within its block.
        values: ``{measure: {query_id: value}}``; a measure that the system lacks shows as a dash.
        block: Block of the table, for instance the retriever.
        counts: What was scored, missing, truncated, … for this system.
    """

    name: str
    values: Mapping[str, Mapping[str, float]]
    block: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """What stands where a system meets a measure.

    Attributes:
        n: Queries.
        mean: Mean over them.
        low: Lower end of the 95 % bootstrap interval, ``None`` below two queries.
        high: Upper end.
        change: Comparison with the block's ``before`` row, for ``after`` rows.
    """

    n: int
    mean: float
    low: float | None
    high: float | None
    change: Significance | None = None


@dataclass(frozen=True)
class Table:
    """Rows, columns and which row is compared with which.

    Attributes:
        title: Heading.
        columns: Measure names.
        rows: Systems, in order; rows of one block together.
        before: Name of the row that every block's ``after`` rows are compared with; ``None`` for no
            comparison.
        after: Names of the rows to compare; all but ``before`` when empty.
        notes: Sentences under the table.
        seed: Seed of intervals and tests.
        clusters: ``{query_id: cluster}``, such as each turn's conversation: intervals and tests take them whole.
            ``None`` where each query stands for itself.
        cluster_name: What one cluster is called.
        pairwise: A measure by which every row of a block is also compared with every other; ``None`` for no such
            comparison.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    before: str | None = None
    after: Sequence[str] = ()
    notes: Sequence[str] = ()
    seed: int = SEED
    clusters: Clusters | None = None
    cluster_name: str = "conversation"
    pairwise: str | None = None

    def compared(self, row: Row) -> bool:
        """Return whether ``row`` is shown as ``before ▶ after``."""
        if self.before is None or row.name == self.before:
            return False
        return not self.after or row.name in self.after

    def cells(self) -> dict[tuple[str, str, str], Cell]:
        """Compute every cell; p is Holm-corrected over all comparisons of the table.

        Comparisons run over the queries that both rows were scored on.

        Returns:
            ``{(block, row name, measure): cell}``; nothing where the system was not scored by the measure.

        Raises:
            ConfigError: If ``before`` or an ``after`` row is not there, or two rows of a block share a name.
            DataError: If a query has no cluster.
        """
        self._check()
        values = {
            (row.block, row.name, measure): row.values[measure]
            for row in self.rows
            for measure in self.columns
            if row.values.get(measure)
        }
        intervals = bootstrap_intervals(list(values.values()), clusters=self.clusters, seed=self.seed)
        changes = self._changes(values)
        cells = {}
        for (key, own), interval in zip(values.items(), intervals, strict=True):
            low, high = interval or (None, None)
            mean = sum(own[query_id] for query_id in sorted(own)) / len(own)
            cells[key] = Cell(len(own), mean, low, high, changes.get(key))
        return cells

    def as_dict(self) -> dict[str, Any]:
        """Return the table as JSON-ready values: what every rendering is made from.

        Returns:
            ``title``, ``columns``, ``before``, ``after``, ``notes``, ``clusters`` (``name`` and ``n`` of them, ``None``
            where each query stands for itself), ``pairwise`` (as ``pairwise.pairwise`` gives it, or ``None``), and
            ``rows`` of ``block``, ``name``, ``counts``, ``cells`` (``{measure: cell}``, ``None`` where the system was
            not scored).
        """
        cells = self.cells()

        def found(row: Row, measure: str) -> dict[str, Any] | None:
            cell = cells.get((row.block, row.name, measure))
            return None if cell is None else asdict(cell)

        return {
            "title": self.title,
            "columns": list(self.columns),
            "before": self.before,
            "after": list(dict.fromkeys(row.name for row in self.rows if self.compared(row))),
            "notes": list(self.notes),
            "clusters": self._clusters(),
            "pairwise": pairwise(self.rows, self.pairwise, self.clusters, self.seed) if self.pairwise else None,
            "rows": [
                {
                    "block": row.block,
                    "name": row.name,
                    "counts": dict(row.counts),
                    "cells": {measure: found(row, measure) for measure in self.columns},
                }
                for row in self.rows
            ],
        }

    def _clusters(self) -> dict[str, Any] | None:
        if self.clusters is None:
            return None
        scored = {query_id for row in self.rows for name in self.columns for query_id in row.values.get(name, ())}
        return {"name": self.cluster_name, "n": len({self.clusters[query_id] for query_id in scored})}

    def _changes(self, values: Mapping[Key, Mapping[str, float]]) -> dict[Key, Significance]:
        """Compare every ``after`` cell with its block's ``before`` cell, as one family."""
        after = {(row.block, row.name) for row in self.rows if self.compared(row)}
        family: dict[Key, tuple[dict[str, float], dict[str, float]]] = {}
        for (block, name, measure), own in values.items():
            base = values.get((block, self.before or "", measure), {})
            common = [query_id for query_id in own if query_id in base]
            if common and (block, name) in after:
                family[block, name, measure] = ({q: base[q] for q in common}, {q: own[q] for q in common})
        found = significance_family(list(family.values()), clusters=self.clusters, seed=self.seed)
        return dict(zip(family, found, strict=True))

    def _check(self) -> None:
        pairs = [(row.block, row.name) for row in self.rows]
        problems = [
            f"row {n!r} stands twice in block {b!r}" for b, n in sorted({p for p in pairs if pairs.count(p) > 1})
        ]
        names = {row.name for row in self.rows}
        wanted = ([self.before] if self.before is not None else []) + list(self.after)
        problems += [
            f"no row is named {name!r}; rows: {', '.join(sorted(names))}" for name in wanted if name not in names
        ]
        if problems:
            raise ConfigError(f"table {self.title!r}: " + "; ".join(problems))
