"""The report of a run: ``report.md``, ``report.json``, ``per_query.csv``."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from utilitune.evaluation.evaluation import coverage
from utilitune.evaluation.rendering import escape_cell, markdown_table
from utilitune.evaluation.table import Cell, Table
from utilitune.records import write_json, write_text


def write_report(
    folder: Path | str,
    tables: Sequence[Table],
    *,
    title: str = "Report",
    counts: Mapping[str, Mapping[str, int]] | None = None,
    notes: Sequence[str] = (),
    manifest: Mapping[str, Any] | None = None,
) -> dict[str, Path]:
    """Write tables, counts and provenance.

    Args:
        folder: Where to write; made if needed. Files of an earlier report are replaced, each atomically.
        tables: The tables, in order.
        title: Heading.
        counts: ``{stage: {kind: count}}`` of everything truncated, skipped, failed, tied or fallen back on;
            stands on the first page, zeros included.
        notes: Sentences that a reader must know, such as "the reader never abstains".
        manifest: Everything that made the numbers (``records.manifest``).

    Returns:
        The three paths, by file name.
    """
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    paths = {name: home / name for name in ("report.md", "report.json", "per_query.csv")}
    write_text(paths["report.md"], report_markdown(tables, title, counts or {}, notes, manifest or {}))
    body = report_json(tables, title, counts or {}, notes, manifest or {})
    write_json(paths["report.json"], body)
    write_text(paths["per_query.csv"], per_query_csv(tables))
    return paths


def report_markdown(
    tables: Sequence[Table],
    title: str,
    counts: Mapping[str, Mapping[str, int]],
    notes: Sequence[str],
    manifest: Mapping[str, Any],
) -> str:
    """Return the report as Markdown.

    Args:
        tables: The tables.
        title: Heading.
        counts: As in ``write_report``.
        notes: As in ``write_report``.
        manifest: As in ``write_report``; its plain fields are listed at the end.

    Returns:
        Markdown text.
    """
    parts = [f"# {escape_cell(title)}\n"]
    if notes:
        parts.append("\n".join(f"* {escape_cell(note)}" for note in notes) + "\n")
    parts += [markdown_table(table) for table in tables]
    parts.append(_scored(tables))
    parts.append(_counts(counts))
    plain = {key: value for key, value in manifest.items() if isinstance(value, str | int | float | bool)}
    if plain:
        lines = [f"| {escape_cell(str(key))} | {escape_cell(str(value))} |" for key, value in plain.items()]
        parts.append("## What made these numbers\n\n| field | value |\n|---|---|\n" + "\n".join(lines) + "\n")
        parts.append("The whole manifest stands in `report.json`, the values of every query in `per_query.csv`.\n")
    return "\n".join(part for part in parts if part)


def report_json(
    tables: Sequence[Table],
    title: str,
    counts: Mapping[str, Mapping[str, int]],
    notes: Sequence[str],
    manifest: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the report as JSON-ready values: numbers at full precision, no NaN.

    Args:
        tables: The tables.
        title: Heading.
        counts: As in ``write_report``.
        notes: As in ``write_report``.
        manifest: As in ``write_report``.

    Returns:
        A dictionary.
    """
    return {
        "title": title,
        "tables": [_table_json(table) for table in tables],
        "counts": {stage: dict(kinds) for stage, kinds in counts.items()},
        "notes": list(notes),
        "manifest": dict(manifest),
    }


def per_query_csv(tables: Sequence[Table]) -> str:
    """Return one line a (table, block, system, query), one column a measure; blank where not scored."""
    measures = list(dict.fromkeys(measure for table in tables for measure in table.columns))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "block", "system", "query_id", *measures])
    for table in tables:
        for row in table.rows:
            held = {measure: row.values[measure] for measure in table.columns if measure in row.values}
            for query_id in dict.fromkeys(query_id for values in held.values() for query_id in values):
                cells = [held.get(measure, {}).get(query_id) for measure in measures]
                texts = ["" if cell is None or not math.isfinite(cell) else repr(float(cell)) for cell in cells]
                writer.writerow([table.title, row.block, row.name, query_id, *texts])
    return out.getvalue()


def _table_json(table: Table) -> dict[str, Any]:
    cells = table.cells()

    def found(cell: Cell | None) -> dict[str, Any] | None:
        return None if cell is None else asdict(cell)

    return {
        "title": table.title,
        "columns": list(table.columns),
        "before": table.before,
        "after": [row.name for row in table.rows if table.compared(row)],
        "notes": list(table.notes),
        "rows": [
            {
                "block": row.block,
                "name": row.name,
                "counts": dict(row.counts),
                "cells": {measure: found(cells.get((row.block, row.name, measure))) for measure in table.columns},
            }
            for row in table.rows
        ],
    }


def _scored(tables: Sequence[Table]) -> str:
    lines = []
    for table in tables:
        for row in table.rows:
            if not row.counts:
                continue
            spoken = {"scored", "answered", "missing", "empty", "unjudged", "retrieved passages"}
            rest = "; ".join(f"{kind}: {count}" for kind, count in row.counts.items() if count and kind not in spoken)
            queries = coverage(row.counts) if "scored" in row.counts else ""
            where = " · ".join(part for part in (table.title, row.block, row.name) if part)
            lines.append(f"| {escape_cell(where)} | {escape_cell(queries)} | {escape_cell(rest)} |")
    if not lines:
        return ""
    return "## What was scored\n\n| system | queries | beside that |\n|---|---|---|\n" + "\n".join(lines) + "\n"


def _counts(counts: Mapping[str, Mapping[str, int]]) -> str:
    head = "## Truncated, skipped, failed, fallen back on\n\n"
    lines = [
        f"| {escape_cell(stage)} | {escape_cell(kind)} | {count} |"
        for stage, kinds in counts.items()
        for kind, count in kinds.items()
    ]
    if not lines:
        return head + "No stage reported any.\n"
    return head + "| stage | kind | count |\n|---|---|---|\n" + "\n".join(lines) + "\n"
