"""A report's tables as LaTeX, to be pasted into a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from utilitune.evaluation.pairwise import pairwise_section
from utilitune.evaluation.rendering import DASH, TableJson, interval, legend, signed
from utilitune.evaluation.section import Section
from utilitune.evaluation.table import Table

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
_ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "−": "$-$",
    "▶": r"$\to$",
    "Δ": r"$\Delta$",
    "σ": r"$\sigma$",
    "θ": r"$\theta$",
    "γ": r"$\gamma$",
    "–": "--",
    "ρ": r"$\rho$",
    "τ": r"$\tau$",
    "κ": r"$\kappa$",
    **{char: "\\" + char for char in "&%$#_{}"},
}


def latex_table(table: Table | TableJson) -> str:
    r"""Return the table as a ``tabular`` in ``booktabs`` style, one line a system, stars for corrected p.

    Args:
        table: The table, or its JSON form.

    Returns:
        LaTeX that ends with a line break; needs ``\usepackage{booktabs}`` and UTF-8 input; names in scripts that the
        document's font lacks need XeLaTeX or LuaLaTeX.
    """
    body = table.as_dict() if isinstance(table, Table) else table
    blocks = [row["block"] for row in body["rows"]]
    blocked = any(blocks)
    head = ([""] if blocked else []) + ["system", "$n$", *map(escape_latex, body["columns"])]
    lines = [r"\begin{table}", r"\centering", r"\small"]
    lines += [r"\begin{tabular}{" + "l" * (1 + blocked) + "r" + "l" * len(body["columns"]) + "}", r"\toprule"]
    lines += [" & ".join(head) + r" \\", r"\midrule"]
    previous = None
    for row, block in zip(body["rows"], blocks, strict=True):
        if previous is not None and block != previous:
            lines.append(r"\midrule")
        label = [escape_latex(block) if block != previous else ""] if blocked else []
        previous = block
        own = [row["cells"].get(measure) for measure in body["columns"]]
        n = max((cell["n"] for cell in own if cell is not None), default=0)
        lines.append(_line([*label, escape_latex(row["name"]), str(n), *(_cell(cell, n) for cell in own)]))
    stars = " Stars: $p < .05$, $.01$, $.001$." if body["after"] else ""
    caption = escape_latex(" ".join([f"{body['title']}." if body["title"] else "", *legend(body)]).strip()) + stars
    lines += [r"\bottomrule", r"\end{tabular}", r"\caption{" + caption + "}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def report_latex(body: Mapping[str, Any]) -> str:
    """Return every table and section of a report.

    Args:
        body: What ``report_json`` returns.

    Returns:
        LaTeX, one ``table`` each.
    """
    parts = []
    for table in body["tables"]:
        found = pairwise_section(table)
        parts += [latex_table(table), *([latex_section(found)] if found else [])]
    return "\n".join([*parts, *map(latex_section, body.get("sections", []))]) or "% no tables\n"


def latex_section(found: Section) -> str:
    """Return a section as a ``tabular`` in ``booktabs`` style."""
    lines = [
        r"\begin{table}",
        r"\centering",
        r"\small",
        r"\begin{tabular}{" + "l" * len(found["head"]) + "}",
        r"\toprule",
    ]
    head, *rows = (_line([*map(escape_latex, line)]) for line in [found["head"], *found["lines"]])
    caption = escape_latex(" ".join([f"{found['title']}.", *found["notes"]]))
    lines += [head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", r"\caption{" + caption + "}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def escape_latex(text: str) -> str:
    """Return ``text`` as LaTeX prints it, on one line; control characters are dropped."""
    flat = "".join(char for char in " ".join(text.split()) if char.isprintable() or char == " ")
    return "".join(_ESCAPED.get(char, char) for char in flat)


def _line(cells: Sequence[str]) -> str:
    """Return one line of a tabular, of LaTeX cells."""
    text = " & ".join(cells) + r" \\"
    # After the line before either would be read as an argument of its line break.
    return "{}" + text if text.startswith(("[", "*")) else text


def _cell(cell: Mapping[str, Any] | None, row_n: int) -> str:
    if cell is None:
        return escape_latex(DASH)
    n = f" ($n={cell['n']}$)" if cell["n"] != row_n else ""
    change = cell["change"]
    if change is None or change["difference"] is None:
        return f"{cell['mean']:.3f}{_small(interval(cell['low'], cell['high']))}{n}"
    p = change["p"] if change["p_holm"] is None else change["p_holm"]
    stars = next((f"$^{{{mark}}}$" for limit, mark in STARS if p < limit), "")
    inside = f" ({signed(change['difference'])}{interval(change['low'], change['high'], sign=True)})"
    return f"{change['before']:.3f} $\\to$ {change['after']:.3f}{stars}{_small(inside)}{n}"


def _small(text: str) -> str:
    return r" {\scriptsize " + escape_latex(text) + "}" if text else ""
