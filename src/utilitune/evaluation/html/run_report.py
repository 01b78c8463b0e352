"""The whole report of a run: one JSON, and page, Markdown and LaTeX made from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from utilitune.evaluation.compare.changes import Example, largest_changes
from utilitune.evaluation.evaluation import Evaluation
from utilitune.evaluation.html.findings import findings
from utilitune.evaluation.html.label_tokens import label_tokens
from utilitune.evaluation.html.page import render_page
from utilitune.evaluation.html.plot_data import all_plots
from utilitune.evaluation.html.run_folder import SOURCES, RunFolder
from utilitune.evaluation.report import write_renderings
from utilitune.records import write_text

PAGE = "report.html"


def run_report(folder: Path | str) -> dict[str, Any]:
    """Collect the report of a run.

    Args:
        folder: Output folder of ``run``, ``evaluate`` or ``compare``.

    Returns:
        What ``report_json`` returns, and ``plots`` (``plot_data``), ``tokens`` (``label_tokens``), ``sections``
        (``findings``); of a recipe's run with ``examples`` of both trainings.

    Raises:
        DataError: If the folder is none of these, or a file in it is damaged.
    """
    run = RunFolder(folder)
    body = dict(run.report)
    body["plots"] = all_plots(run)
    body["tokens"] = label_tokens(run)
    body["examples"] = [*body["examples"], *_examples(run)]
    body["sections"], unread = findings(run.path)
    body["notes"] = [*body["notes"], *unread]
    if run.dataset is None and run.home != run.path:
        named = (body["manifest"].get("recipe") or {}).get("data")
        body["notes"] = [*body["notes"], f"The data folder ({named}) could not be read from here: no texts are shown."]
    return body


def write_run_report(folder: Path | str, out: Path | str) -> dict[str, Path]:
    """Write ``report.html``, ``report.json``, ``report.md`` and ``report.tex``.

    Args:
        folder: Output folder of ``run``, ``evaluate`` or ``compare``.
        out: Where to write; made if needed.

    Returns:
        The paths by file name.
    """
    body = run_report(folder)
    home = Path(out)
    home.mkdir(parents=True, exist_ok=True)
    paths = write_renderings(home, body)
    paths[PAGE] = home / PAGE
    write_text(paths[PAGE], render_page(body))
    return paths


def _examples(run: RunFolder) -> list[Example]:
    """Return the largest changes of every comparison of a recipe's tables, by the table's first measure."""
    utilities = run.labels("utility/labels.jsonl")
    found = []
    for table in run.report["tables"]:
        other = run.transferred(table["title"])
        dataset = run.data(other) if other else run.dataset
        for row in table["rows"]:
            name, before = row["name"], table["before"]
            if name not in table["after"] or name not in SOURCES or before not in SOURCES:
                continue
            sides = {each: run.per_query.get((table["title"], row["block"], each), {}) for each in (before, name)}
            measure = next((each for each in table["columns"] if all(each in own for own in sides.values())), None)
            if measure is None:
                continue
            example = largest_changes(
                Evaluation([measure], sides),
                run.side(row["block"], before, other.name if other else ""),
                run.side(row["block"], name, other.name if other else ""),
                measure,
                dataset,
                utilities=utilities.table("abstention") if utilities and not other else None,
            )
            parts = (other.name if other else "", row["block"], example["title"])
            found.append(example | {"title": " · ".join(part for part in parts if part)})
    return found
