"""A table as Markdown and as plain text for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from utilitune.evaluation.table import Cell, Row, Table

DASH = "–"


def render_table(table: Table, width: int = 110) -> str:
    """Return the table as aligned plain text (no colour codes), notes underneath.

    Args:
        table: The table.
        width: Columns of the terminal; a table that is wider is printed measure by measure.

    Returns:
        Text that ends with a line break.
    """
    head, lines = _grid(table)
    text = [table.title, ""] if table.title else []
    whole = _aligned(table, head, lines)
    if max(map(_width, whole)) <= width:
        text += whole
    else:
        first = len(head) - len(table.columns)
        for column, measure in enumerate(table.columns, first):
            text += _aligned(table, [*head[:first], measure], [[*line[:first], line[column]] for line in lines])
            text.append("")
    return "\n".join([*text, *(["", *_footer(table)])]).replace("\n\n\n", "\n\n").rstrip() + "\n"


def markdown_table(table: Table) -> str:
    """Return the table as Markdown, heading and notes included."""
    head, lines = _grid(table)
    text = [f"## {escape_cell(table.title)}", ""] if table.title else []
    text.append("| " + " | ".join(map(escape_cell, head)) + " |")
    text.append("|" + "---|" * len(head))
    text += ["| " + " | ".join(map(escape_cell, line)) + " |" for line in lines]
    return "\n".join([*text, "", *(f"{escape_cell(line)}  " for line in _footer(table))]).rstrip() + "\n"


def escape_cell(text: str) -> str:
    """Return ``text`` so that it stays inside one cell or line of Markdown.

    Args:
        text: Any text, such as a system name or an answer.

    Returns:
        One line: line breaks of every kind become spaces; backslashes, pipes and HTML brackets are escaped.
    """
    flat = " ".join(text.split())
    return flat.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")


def format_cell(cell: Cell | None, row_n: int) -> str:
    """Return the text of one cell.

    Args:
        cell: The cell, ``None`` where the system was not scored.
        row_n: Queries of the row; a cell over another number says so.

    Returns:
        ``mean [low, high]``, or ``before ▶ after (Δ, interval of Δ, p)``.
    """
    if cell is None:
        return DASH
    own_n = f" n={cell.n}" if cell.n != row_n else ""
    change = cell.change
    if change is None or change.before is None or change.after is None or change.difference is None:
        return f"{cell.mean:.3f}{_interval(cell.low, cell.high)}{own_n}"
    if change.n not in (cell.n, row_n):
        own_n = f" n={change.n}"
    p = change.p if change.p_holm is None else change.p_holm
    inside = f"Δ {_signed(change.difference)}{_interval(change.low, change.high, signed=True)}, p {_p(p)}"
    return f"{change.before:.3f} ▶ {change.after:.3f} ({inside}){own_n}"


def _grid(table: Table) -> tuple[list[str], list[list[str]]]:
    cells = table.cells()
    blocked = table.blocks() != [""]
    head = ([""] if blocked else []) + ["system", "n", *table.columns]
    lines = []
    previous = None
    for row in table.rows:
        own = [cells.get((row.block, row.name, measure)) for measure in table.columns]
        n = max((cell.n for cell in own if cell is not None), default=0)
        label = [row.block if row.block != previous else ""] if blocked else []
        previous = row.block
        lines.append([*label, row.name, str(n), *(format_cell(cell, n) for cell in own)])
    return head, lines


def _aligned(table: Table, head: list[str], lines: list[list[str]]) -> list[str]:
    widths = [max(_width(line[column]) for line in [head, *lines]) for column in range(len(head))]
    rule = "  ".join("-" * width for width in widths)
    text = [_pad(head, widths), rule]
    previous = None
    for row, line in zip(table.rows, lines, strict=True):
        if previous is not None and row.block != previous:
            text.append(rule)
        previous = row.block
        text.append(_pad(line, widths))
    return text


def _footer(table: Table) -> list[str]:
    compared: list[Row] = [row for row in table.rows if table.compared(row)]
    legend = "Brackets: 95 % bootstrap interval over queries."
    if compared:
        legend += (
            f" ▶: from {table.before!r}, Δ with its paired 95 % interval, p of the paired randomisation "
            "test, Holm-corrected over this table."
        )
    return [legend, *(" ".join(note.split()) for note in table.notes)]


def _interval(low: float | None, high: float | None, signed: bool = False) -> str:
    if low is None or high is None:
        return ""
    return f" [{_signed(low)}, {_signed(high)}]" if signed else f" [{low:.3f}, {high:.3f}]"


def _signed(value: float) -> str:
    text = f"{value:+.3f}"
    # A zero has no direction.
    return "0.000" if text in ("+0.000", "-0.000") else text.replace("-", "−")


def _p(value: float) -> str:
    return "< .001" if value < 0.001 else f"{value:.3f}".lstrip("0") if value < 1 else "1"


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def _pad(line: Sequence[str], widths: Sequence[int]) -> str:
    flat = [" ".join(text.split()) for text in line]
    return "  ".join(text + " " * (width - _width(text)) for text, width in zip(flat, widths, strict=True)).rstrip()
