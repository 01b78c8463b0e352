"""The report of a run: one JSON, and Markdown, LaTeX and CSV made from it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from utilitune.errors import DataError
from utilitune.evaluation.latex import report_latex
from utilitune.evaluation.markdown import report_markdown
from utilitune.evaluation.table import Table
from utilitune.records import write_json, write_text

KEYS = ("table", "block", "system", "query_id")


def write_report(
    folder: Path | str,
    tables: Sequence[Table],
    *,
    title: str = "Report",
    counts: Mapping[str, Mapping[str, int]] | None = None,
    notes: Sequence[str] = (),
    manifest: Mapping[str, Any] | None = None,
    examples: Sequence[Mapping[str, Any]] = (),
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
        examples: Queries that changed, with their texts (``compare.largest_changes``); in the JSON alone.

    Returns:
        The paths by file name: ``report.json``, ``report.md``, ``report.tex``, ``per_query.csv``.
    """
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    body = report_json(tables, title, counts or {}, notes, manifest or {}, examples)
    paths = write_renderings(home, body)
    paths["per_query.csv"] = home / "per_query.csv"
    write_text(paths["per_query.csv"], per_query_csv(tables))
    return paths


def write_renderings(folder: Path, body: Mapping[str, Any]) -> dict[str, Path]:
    """Write a report's JSON, and the Markdown and LaTeX made from it.

    Args:
        folder: An existing folder.
        body: What ``report_json`` returns.

    Returns:
        The paths by file name.
    """
    texts = {"report.md": report_markdown(body), "report.tex": report_latex(body)}
    write_json(folder / "report.json", body)
    for name, text in texts.items():
        write_text(folder / name, text)
    return {name: folder / name for name in ("report.json", *texts)}


def report_json(
    tables: Sequence[Table],
    title: str,
    counts: Mapping[str, Mapping[str, int]],
    notes: Sequence[str],
    manifest: Mapping[str, Any],
    examples: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the report as JSON-ready values: numbers at full precision, no NaN.

    Args:
        tables: The tables.
        title: Heading.
        counts: As in ``write_report``.
        notes: As in ``write_report``.
        manifest: As in ``write_report``.
        examples: As in ``write_report``.

    Returns:
        A dictionary.
    """
    return {
        "title": title,
        "tables": [table.as_dict() for table in tables],
        "counts": {stage: dict(kinds) for stage, kinds in counts.items()},
        "notes": list(notes),
        "manifest": dict(manifest),
        "examples": list(examples),
    }


def per_query_csv(tables: Sequence[Table]) -> str:
    """Return one line a (table, block, system, query), one column a measure; blank where not scored."""
    measures = list(dict.fromkeys(measure for table in tables for measure in table.columns))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*KEYS, *measures])
    for table in tables:
        for row in table.rows:
            held = {measure: row.values[measure] for measure in table.columns if measure in row.values}
            for query_id in dict.fromkeys(query_id for values in held.values() for query_id in values):
                cells = [held.get(measure, {}).get(query_id) for measure in measures]
                texts = ["" if cell is None or not math.isfinite(cell) else repr(float(cell)) for cell in cells]
                writer.writerow([table.title, row.block, row.name, query_id, *texts])
    return out.getvalue()


PerQuery = dict[tuple[str, str, str], dict[str, dict[str, float]]]


def read_per_query(path: Path | str) -> PerQuery:
    """Read ``per_query.csv``.

    Args:
        path: The file.

    Returns:
        ``{(table, block, system): {measure: {query_id: value}}}``, systems in file order; a measure that a system
        lacks is not there.

    Raises:
        DataError: If the file is missing, or not one of ours.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    rows = csv.reader(io.StringIO(text, newline=""))
    head = next(rows, [])
    if tuple(head[: len(KEYS)]) != KEYS:
        raise DataError(f"{path}: starts with {','.join(head)[:80]!r}; expected the columns {','.join(KEYS)}, measures")
    measures = head[len(KEYS) :]
    if len(set(measures)) < len(measures):
        raise DataError(f"{path}:1: a measure has two columns; expected one of each: {','.join(measures)[:80]}")
    found: PerQuery = {}
    for row in rows:
        try:
            table, block, system, query_id, *cells = row
            own = found.setdefault((table, block, system), {})
            for measure, cell in zip(measures, cells, strict=True):
                if cell:
                    values = own.setdefault(measure, {})
                    if query_id in values:
                        raise ValueError(f"query {query_id!r} stands there twice")
                    if not math.isfinite(float(cell)):
                        raise ValueError(f"{measure} is {cell}, expected a finite number or nothing")
                    values[query_id] = float(cell)
        except ValueError as error:
            raise DataError(f"{path}:{rows.line_num}: not a line of per-query values ({error})") from error
    return found
