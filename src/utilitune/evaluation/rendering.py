"""A table in words: the cells as text, and the whole as aligned plain text for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from utilitune.evaluation.evaluation import answer_coverage, coverage
from utilitune.evaluation.table import Table

DASH = "–"
TableJson = Mapping[str, Any]
"""What ``Table.as_dict`` returns, or the same read back from ``report.json``."""


@dataclass(frozen=True)
class Grid:
    """A table as text.

    Attributes:
        title: Heading.
        head: Headings of the columns; the first one is empty where the table has blocks.
        lines: One list of cells a row, as long as ``head``; a block's name stands in its first row only.
        blocks: Block of each row.
        first: Index of the first column of measures.
        footer: Lines to stand under the table.
    """

    title: str
    head: list[str]
    lines: list[list[str]]
    blocks: list[str]
    first: int
    footer: list[str]


def grid(table: Table | TableJson) -> Grid:
    """Return the table with every cell as text.

    Args:
        table: The table, or its JSON form.

    Returns:
        The text, nothing escaped.
    """
    body = table.as_dict() if isinstance(table, Table) else table
    blocks = [row["block"] for row in body["rows"]]
    blocked = any(blocks)
    head = ([""] if blocked else []) + ["system", "n", *body["columns"]]
    lines = []
    previous = None
    for row in body["rows"]:
        own = [row["cells"].get(measure) for measure in body["columns"]]
        n = row_n(row)
        label = [row["block"] if row["block"] != previous else ""] if blocked else []
        previous = row["block"]
        lines.append([*label, row["name"], str(n), *(format_cell(cell, n) for cell in own)])
    return Grid(body["title"], head, lines, blocks, len(head) - len(body["columns"]), legend(body))


def row_n(row: Mapping[str, Any]) -> int:
    """Return the number of queries of a row: the most of its cells."""
    return max((cell["n"] for cell in row["cells"].values() if cell is not None), default=0)


def legend(table: TableJson) -> list[str]:
    """Return what brackets and arrows mean, what every mean is over, then the table's own notes.

    Args:
        table: A table's JSON form.

    Returns:
        One line each.
    """
    # Reports of earlier versions know of no clusters.
    clusters = table.get("clusters")
    over, flipped = "queries", ""
    if clusters:
        over, flipped = f"{clusters['n']} whole {clusters['name']}s", f" (whole {clusters['name']}s flipped)"
    line = f"Brackets: 95 % bootstrap interval over {over}."
    if table["after"]:
        line += (
            f" ▶: from {table['before']!r}, Δ with its paired 95 % interval, p of the paired randomisation "
            f"test{flipped}, Holm-corrected over this table."
        )
    return [line, *_covered(table), *(" ".join(note.split()) for note in table["notes"])]


def _covered(table: TableJson) -> list[str]:
    """Say which queries the means are over: once for all rows, or row by row where they differ."""
    said: dict[str, list[str]] = {}
    answered: dict[str, list[str]] = {}
    for row in table["rows"]:
        name = " ".join(" · ".join(part for part in (row["block"], row["name"]) if part).split())
        if "scored" in row["counts"]:
            said.setdefault(coverage(row["counts"]), []).append(name)
        if "answers scored" in row["counts"]:
            answered.setdefault(answer_coverage(row["counts"]), []).append(name)
    return [*_by_row("Queries", said), *_by_row("Answers", answered)]


def _by_row(what: str, said: Mapping[str, Sequence[str]]) -> list[str]:
    if len(said) == 1:
        return [f"{what}: {line}." for line in said]
    return [f"{what} of {', '.join(names)}: {line}." for line, names in said.items()]


def format_cell(cell: Mapping[str, Any] | None, row_n: int) -> str:
    """Return the text of one cell.

    Args:
        cell: The cell's JSON form, ``None`` where the system was not scored.
        row_n: Queries of the row; a cell over another number says so.

    Returns:
        ``mean [low, high]``, or ``before ▶ after (Δ, interval of Δ, p)``.
    """
    if cell is None:
        return DASH
    own_n = f" n={cell['n']}" if cell["n"] != row_n else ""
    change = cell["change"]
    if change is None or change["difference"] is None:
        return f"{cell['mean']:.3f}{interval(cell['low'], cell['high'])}{own_n}"
    if change["n"] not in (cell["n"], row_n):
        own_n = f" n={change['n']}"
    inside = f"Δ {signed(change['difference'])}{interval(change['low'], change['high'], sign=True)}, {p_text(change)}"
    return f"{change['before']:.3f} ▶ {change['after']:.3f} ({inside}){own_n}"


def interval(low: float | None, high: float | None, sign: bool = False) -> str:
    """Return `` [low, high]``, or nothing where there is no interval."""
    if low is None or high is None:
        return ""
    return f" [{signed(low)}, {signed(high)}]" if sign else f" [{low:.3f}, {high:.3f}]"


def signed(value: float) -> str:
    """Return three decimals with a sign; a zero has no direction."""
    text = f"{value:+.3f}"
    return "0.000" if text in ("+0.000", "-0.000") else text.replace("-", "−")


def p_text(change: Mapping[str, Any]) -> str:
    """Return ``p .012``, corrected where there is a family."""
    value = change["p"] if change["p_holm"] is None else change["p_holm"]
    return "p " + ("< .001" if value < 0.001 else f"{value:.3f}".lstrip("0") if value < 1 else "1")


def render_table(table: Table | TableJson, width: int = 110) -> str:
    """Return the table as aligned plain text (no colour codes), notes underneath.

    Args:
        table: The table, or its JSON form.
        width: Columns of the terminal; a table that is wider is printed measure by measure.

    Returns:
        Text that ends with a line break.
    """
    made = grid(table)
    text = [made.title, ""] if made.title else []
    whole = _aligned(made.head, made.lines, made.blocks)
    if max(map(_width, whole)) <= width:
        text += whole
    else:
        for column in range(made.first, len(made.head)):
            lines = [[*line[: made.first], line[column]] for line in made.lines]
            text += _aligned([*made.head[: made.first], made.head[column]], lines, made.blocks)
            text.append("")
    return "\n".join([*text, "", *made.footer]).replace("\n\n\n", "\n\n").rstrip() + "\n"


def _aligned(head: list[str], lines: list[list[str]], blocks: list[str]) -> list[str]:
    widths = [max(_width(line[column]) for line in [head, *lines]) for column in range(len(head))]
    rule = "  ".join("-" * width for width in widths)
    text = [_pad(head, widths), rule]
    previous = None
    for block, line in zip(blocks, lines, strict=True):
        if previous is not None and block != previous:
            text.append(rule)
        previous = block
        text.append(_pad(line, widths))
    return text


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def _pad(line: Sequence[str], widths: Sequence[int]) -> str:
    flat = [" ".join(text.split()) for text in line]
    return "  ".join(text + " " * (width - _width(text)) for text, width in zip(flat, widths, strict=True)).rstrip()
