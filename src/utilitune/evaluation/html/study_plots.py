"""Plots of a correlation study: ρ by list length, and accuracy by the place of the relevant passage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from utilitune.errors import UtilituneError
from utilitune.records import read_json

METRICS = ("UDCG", "UDCGθ", "nDCG", "MRR")
"""As many as a plot has colours."""


def study_plots(folder: Path) -> list[dict[str, Any]]:
    """Return the plots of every ``correlation.json`` in a run's folder.

    Args:
        folder: Output folder of a run.

    Returns:
        Plots as ``plots.plot_svg`` takes them; none of a file that cannot be read, which ``findings`` names.
    """
    made = []
    for path in sorted(folder.rglob("correlation.json")):
        try:
            made += _plots(read_json(path), path.relative_to(folder).as_posix())
        except (UtilituneError, LookupError, TypeError, ValueError, AttributeError):
            continue
    return made


def _plots(body: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    rows = body["correlations"]
    # The first block pools all systems.
    block = rows[0]["system"]
    by_k: dict[str, list[list[float]]] = {}
    for row in rows:
        if row["system"] == block and row["k"] is not None and row["spearman"]["value"] is not None:
            by_k.setdefault(row["metric"], []).append([row["k"], row["spearman"]["value"]])
    series = [{"name": name, "points": sorted(by_k[name])} for name in METRICS if name in by_k]
    made = [_lines(f"ρ of metric and right answer by list length: {block}", "passages a list", "ρ", series, where)]
    if body.get("position"):
        places = body["position"]["positions"]
        right = [[each["place"], each["right"]["value"]] for each in places if each["right"]["value"] is not None]
        metrics = [name for name in METRICS if name in places[0]["metrics"]]
        series = [{"name": "right answers", "points": right}] if right else []
        series += [
            {"name": name, "points": [[each["place"], each["metrics"][name]] for each in places]} for name in metrics
        ]
        made.append(
            _lines("Right answers by the place of the relevant passage", "place", "share, or metric", series, where)
        )
    return [plot for plot in made if plot["series"]]


def _lines(title: str, x: str, y: str, series: list[dict[str, Any]], note: str) -> dict[str, Any]:
    return {"kind": "lines", "title": title, "x": x, "y": y, "series": series, "note": note}
