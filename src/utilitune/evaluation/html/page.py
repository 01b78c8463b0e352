"""The page: a template, a style sheet, and nothing from the network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utilitune.evaluation.html.clean import Cleaner
from utilitune.evaluation.markdown import scored
from utilitune.evaluation.pairwise import pairwise_section
from utilitune.evaluation.rendering import interval, legend, p_text, row_n, signed

if TYPE_CHECKING:
    from jinja2 import Template

HERE = Path(__file__).parent
CLEAR = 0.05
"""Corrected p below which a change is coloured."""


def render_page(body: Mapping[str, Any]) -> str:
    """Return a report as HTML.

    Args:
        body: What ``report_json`` or ``run_report`` returns.

    Returns:
        One document: style and plots inside, no script, no link, no request (a content security policy says so to
        the browser as well). Every text is escaped, cut at ``clean.LIMIT`` and isolated from its neighbours'
        writing direction; texts that were cut or changed are counted on the page.
    """
    from markupsafe import Markup

    from utilitune.evaluation.html.plots import plot_svg

    clean = Cleaner()
    shown = clean({"plots": [], "examples": [], "tokens": [], "sections": [], **body, "manifest": None})
    plots = [Markup(plot_svg(plot, number)) for number, plot in enumerate(shown["plots"])]
    manifest = json.dumps(body["manifest"], indent=2, ensure_ascii=False, default=str)
    shown["counts"]["page"] = {"texts cut": clean.cut, "texts with characters replaced": clean.replaced}
    return _template().render(
        body=shown,
        plots=plots,
        scored=scored(shown),
        manifest=Cleaner(limit=200_000)(manifest),
        style=Markup((HERE / "style.css").read_text(encoding="utf-8")),
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals |= {"legend": legend, "row_n": row_n, "pairwise": pairwise_section}
    environment.filters |= {
        "number": lambda value: f"{value:.3f}",
        "signed": signed,
        "interval": lambda pair: interval(pair[0], pair[1]),
        "signed_interval": lambda pair: interval(pair[0], pair[1], sign=True),
        "p": p_text,
        "direction": _direction,
        "weight": lambda value: f"{max(-1.0, min(1.0, float(value))):.2f}",
    }
    return environment.get_template("page.html.j2")


def _direction(change: Mapping[str, Any]) -> str:
    """Return the class of a change: ``up`` or ``down`` where the corrected test is clear, else ``flat``."""
    p = change["p"] if change["p_holm"] is None else change["p_holm"]
    if p >= CLEAR or not change["difference"]:
        return "flat"
    return "up" if change["difference"] > 0 else "down"
