"""A report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.evaluation.evaluation import LEFT_OUT, coverage
from utilitune.evaluation.pairwise import pairwise_section
from utilitune.evaluation.rendering import TableJson, grid
from utilitune.evaluation.section import Section
from utilitune.evaluation.table import Table

SPOKEN = frozenset({"scored", "answered", "missing", "empty", "unjudged", "retrieved passages", LEFT_OUT})
"""Counts that ``coverage`` says in words."""
SHORT = 160
"""Characters of a text in an example."""
MARKS = re.compile(r"[`*~|]|\](?=[(\[:])|(?<![^\W_])_|_(?![^\W_])|^#|&(?=#?\w+;)")
"""What Markdown reads as more than text. Brackets of an interval, underscores in words and a lone & are plain."""
WINS = ("system", "measure", "wins", "ties", "losses")


def report_markdown(body: Mapping[str, Any]) -> str:
    """Return the report as Markdown.

    Args:
        body: What ``report_json`` returns; the plain fields of its manifest are listed at the end.

    Returns:
        Markdown text.
    """
    parts = [f"# {escape_cell(body['title'])}\n"]
    if body["notes"]:
        parts.append("\n".join(f"* {escape_cell(note)}" for note in body["notes"]) + "\n")
    for table in body["tables"]:
        found = pairwise_section(table)
        parts += [markdown_table(table), *([markdown_section(found)] if found else [])]
    parts += [markdown_section(each) for each in body.get("sections", [])]
    parts.append(_lines("Wins, ties, losses", WINS, wins(body)))
    parts.append(_lines("What was scored", ("system", "queries", "beside that"), scored(body)))
    parts.append(_counts(body["counts"]))
    parts += [_example(group) for group in body.get("examples", [])]
    plain = {key: value for key, value in body["manifest"].items() if isinstance(value, str | int | float | bool)}
    if plain:
        lines = [f"| {escape_cell(str(key))} | {escape_cell(str(value))} |" for key, value in plain.items()]
        parts.append("## What made these numbers\n\n| field | value |\n|---|---|\n" + "\n".join(lines) + "\n")
        parts.append("The whole manifest stands in `report.json`, the values of every query in `per_query.csv`.\n")
    return "\n".join(part for part in parts if part)


def markdown_table(table: Table | TableJson) -> str:
    """Return the table as Markdown, heading and notes included.

    Args:
        table: The table, or its JSON form.

    Returns:
        Markdown text that ends with a line break.
    """
    made = grid(table)
    text = [f"## {escape_cell(made.title)}", ""] if made.title else []
    text.append("| " + " | ".join(map(escape_cell, made.head)) + " |")
    text.append("|" + "---|" * len(made.head))
    text += ["| " + " | ".join(map(escape_cell, line)) + " |" for line in made.lines]
    return "\n".join([*text, "", *(f"{escape_cell(line)}  " for line in made.footer)]).rstrip() + "\n"


def escape_cell(text: str) -> str:
    """Return ``text`` so that it stays inside one cell or line of Markdown.

    Args:
        text: Any text, such as a system name or an answer.

    Returns:
        One line that shows the text and nothing else: line breaks of every kind become spaces, what cannot be printed
        goes, and whatever Markdown would read as a link, an image, code, emphasis, a heading or HTML is escaped.
    """
    flat = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    plain = MARKS.sub(r"\\\g<0>", flat.replace("\\", "\\\\"))
    return plain.replace("<", "&lt;").replace(">", "&gt;")


def scored(body: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return what stands beside every mean: system, queries in words, every other count that is not 0."""
    lines = []
    for table in body["tables"]:
        for row in table["rows"]:
            counts = row["counts"]
            if counts:
                rest = "; ".join(f"{kind}: {count}" for kind, count in counts.items() if count and kind not in SPOKEN)
                where = " · ".join(part for part in (table["title"], row["block"], row["name"]) if part)
                lines.append((where, coverage(counts) if "scored" in counts else "", rest))
    return lines


def wins(body: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return one line a comparison: system, measure, queries won, tied and lost against the ``before`` row."""
    return [
        (
            " · ".join(part for part in (table["title"], row["block"], row["name"]) if part),
            measure,
            *(str(cell["change"][kind]) for kind in ("wins", "ties", "losses")),
        )
        for table in body["tables"]
        for row in table["rows"]
        for measure, cell in row["cells"].items()
        if cell is not None and cell["change"] is not None
    ]


def markdown_section(found: Section) -> str:
    """Return a section as Markdown, heading and notes included."""
    text = _lines(found["title"], found["head"], found["lines"])
    return "\n".join([text, *(f"{escape_cell(note)}  " for note in found["notes"])]).rstrip() + "\n"


def _lines(title: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    if not lines:
        return ""
    rows = ["| " + " | ".join(map(escape_cell, line)) + " |" for line in [head, *lines]]
    return "\n".join([f"## {escape_cell(title)}", "", rows[0], "|" + "---|" * len(head), *rows[1:]]) + "\n"


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


def _example(group: Mapping[str, Any]) -> str:
    """Return the largest changes of one comparison: question, then each side's value, search text, answer, passages."""
    lines = [f"## What changed most: {escape_cell(group['title'])}", ""]
    lines += [f"{group['better']} queries better, {group['worse']} worse, {group['equal']} equal.", ""]
    for item in group["items"]:
        lines.append(f"* **{escape_cell(item['query_id'])}** {_short(item['question'] or '')}")
        for side in item["sides"]:
            said = [f"{escape_cell(side['name'])}: {side['value']:.3f}"]
            said += [f"{what} “{_short(side[what])}”" for what in ("rewrite", "answer") if side[what] is not None]
            lines.append("  * " + "; ".join(said))
            for passage in side["passages"]:
                mark = " (relevant)" if passage["relevant"] else ""
                text = f"{passage['title']} {passage['text'] or ''}"
                lines.append(f"    1. {escape_cell(passage['id'])}{mark} {_short(text)}".rstrip())
    return "\n".join(lines) + "\n"


def _short(text: str) -> str:
    flat = " ".join(text[: 4 * SHORT].split())
    # Cut first: half an escape would be worse than none.
    return escape_cell(flat if len(flat) <= SHORT else flat[:SHORT] + "…")
