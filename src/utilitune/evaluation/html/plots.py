"""Plots as inline SVG that takes the page's colours, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from utilitune.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Plot = Mapping[str, Any]
INK, GRID = "#010203", "#010204"
SERIES = ("#010205", "#010206", "#010207", "#010208")
# Colours that nobody would draw with stand for the page's own.
_COLOURS = {INK: "var(--ink)", GRID: "var(--line)"} | {colour: f"var(--s{i})" for i, colour in enumerate(SERIES)}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "utilitune",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
}
_BIDI = dict.fromkeys([0x200E, 0x200F, 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])


def plot_svg(plot: Plot, number: int = 0) -> str:
    """Draw one plot.

    Args:
        plot: ``kind`` (a name in ``KINDS``), ``title``, and what the kind reads.
        number: Which plot of the page; keeps the ids of several apart.

    Returns:
        An ``<svg>`` element; texts in it are escaped. Colours are the page's variables ``--ink``, ``--line``,
        ``--s0`` to ``--s3``.

    Raises:
        ConfigError: For an unknown kind.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    if plot["kind"] not in KINDS:
        raise ConfigError(f"unknown plot {plot['kind']!r}; known: {', '.join(KINDS)}")
    with rc_context(_STYLE):
        figure = Figure(figsize=(4.6, 2.9))
        FigureCanvasSVG(figure)
        figure.patch.set_alpha(0)
        # Fixed margins: a layout engine would draw everything twice.
        axes = figure.add_axes((0.15, 0.17, 0.83, 0.79))
        axes.patch.set_alpha(0)
        KINDS[plot["kind"]](axes, plot)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    for colour, variable in _COLOURS.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r'( id="|url\(#|xlink:href="#)', rf"\1p{number}-", svg)
    name = f' role="img" aria-label="{_attribute(str(plot["title"]))}"'
    return svg.replace("<svg", "<svg" + name, 1)


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def _label(text: object, limit: int = 44) -> str:
    flat = " ".join(str(text).translate(_BIDI).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _histogram(axes: Axes, plot: Plot) -> None:
    edges = plot["edges"]
    for colour, group in zip(SERIES, plot["groups"], strict=False):
        total = sum(group["counts"]) or 1
        shares = [count / total for count in group["counts"]]
        axes.stairs(shares, edges, fill=True, alpha=0.25, color=colour)
        axes.stairs(shares, edges, color=colour, label=f"{_label(group['name'], 24)} ({sum(group['counts'])})")
    axes.set_xlabel(_label(plot["x"]))
    axes.set_ylabel("share")
    axes.legend()


def _lines(axes: Axes, plot: Plot) -> None:
    from matplotlib.ticker import MaxNLocator

    for colour, series in zip(SERIES, plot["series"], strict=False):
        x, y = zip(*series["points"], strict=True)
        axes.plot(x, y, color=colour, label=_label(series["name"], 24), marker="o" if len(x) < 30 else "", markersize=3)
    axes.set_xlabel(_label(plot["x"]))
    axes.set_ylabel(_label(plot["y"]))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(plot["series"]) > 1:
        axes.legend()


def _gains(axes: Axes, plot: Plot) -> None:
    for colour, series in zip(SERIES, plot["series"], strict=False):
        values = series["values"]
        axes.stairs(values, [100 * i / len(values) for i in range(len(values) + 1)], color=colour, baseline=None)
        axes.plot([], [], color=colour, label=_label(series["name"], 24))
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xlabel("queries, worst change first (%)")
    axes.set_ylabel(_label(plot["y"]))
    axes.legend()


def _calibration(axes: Axes, plot: Plot) -> None:
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    for colour, series in zip(SERIES, plot["series"], strict=False):
        x, y, _ = zip(*series["points"], strict=True)
        axes.plot(
            x,
            y,
            color=colour,
            marker="o",
            markersize=3,
            label=f"{_label(series['name'], 24)} (ECE {series['ece']:.2f})",
        )
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel(_label(plot["x"]))
    axes.set_ylabel(_label(plot["y"]))
    axes.legend()


KINDS: dict[str, Callable[[Axes, Plot], None]] = {
    "histogram": _histogram,
    "lines": _lines,
    "gains": _gains,
    "calibration": _calibration,
}
