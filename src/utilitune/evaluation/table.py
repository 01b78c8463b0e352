"""One table of a report: systems by measures, before ▶ after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from utilitune.errors import ConfigError
from utilitune.evaluation.significance import SEED, Significance, bootstrap_interval, holm, significance


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
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    before: str | None = None
    after: Sequence[str] = ()
    notes: Sequence[str] = ()
    seed: int = SEED

    def blocks(self) -> list[str]:
        """Return the block names in order of first appearance."""
        return list(dict.fromkeys(row.block for row in self.rows))

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
        """
        self._check()
        named = {(row.block, row.name): row for row in self.rows}
        cells: dict[tuple[str, str, str], Cell] = {}
        for row in self.rows:
            base = named.get((row.block, self.before or "")) if self.compared(row) else None
            for measure in self.columns:
                values = row.values.get(measure)
                if values:
                    cells[row.block, row.name, measure] = self._cell(values, base.values.get(measure) if base else None)
        family = [key for key, cell in cells.items() if cell.change is not None]
        corrected = holm([change.p for key in family if (change := cells[key].change) is not None])
        for key, p in zip(family, corrected, strict=True):
            change = cells[key].change
            if change is not None:
                cells[key] = replace(cells[key], change=replace(change, p_holm=p))
        return cells

    def _cell(self, values: Mapping[str, float], base: Mapping[str, float] | None) -> Cell:
        ordered = [values[key] for key in sorted(values)]
        low, high = bootstrap_interval(ordered, seed=self.seed) or (None, None)
        common = [key for key in values if key in base] if base else []
        change = None
        if base and common:
            change = significance(
                {key: base[key] for key in common}, {key: values[key] for key in common}, seed=self.seed
            )
        return Cell(len(ordered), sum(ordered) / len(ordered), low, high, change)

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
