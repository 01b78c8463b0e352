"""Figures: one style, and the same bytes for the same numbers."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from utilitune.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#1b6ca8", "#d1495b", "#8a8d91", "#edae49")
"""Told apart by lightness as well, for readers who do not see the hues."""
MARKERS = ("o", "s", "D", "^")
STYLE: dict[str, Any] = {
    "svg.hashsalt": "utilitune",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e5e8",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
}
MOST_BINS = 30
LONGEST_NAME = 36


@dataclass(frozen=True)
class Dot:
    """A value with its interval; ``None`` where there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None


def check_plots() -> None:
    """Refuse to go on without matplotlib, before any work.

    Raises:
        ConfigError: If it is missing.
    """
    if find_spec("matplotlib") is None:
        raise ConfigError("figures need matplotlib, which is not installed; pip install matplotlib")


def dots_svg(names: Sequence[str], series: Mapping[str, Sequence[Dot]], *, label: str, chance: float | None) -> str:
    """Draw one row a name, one dot with its interval a series.

    Args:
        names: Rows, from the top.
        series: Legend -> one dot a row.
        label: What the horizontal axis is.
        chance: Where a dashed line stands; none when ``None``.

    Returns:
        SVG text.

    Raises:
        ConfigError: If matplotlib is missing.
    """
    figure = _figure(7.0, 1.1 + 0.42 * len(names))
    with _style():
        axes = figure.subplots()
        step = 0.5 / max(len(series), 1)
        for number, (legend, dots) in enumerate(series.items()):
            shift = (number - (len(series) - 1) / 2) * step
            _draw_dots(axes, [place + shift for place in range(len(names))], dots, legend, number)
        if chance is not None:
            axes.axvline(chance, color="#5a5d61", linestyle="--", linewidth=1)
        axes.set_yticks(range(len(names)), [_wrapped(name) for name in names])
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(label)
        figure.legend(loc="outside upper right", ncols=len(series))
        return _svg(figure)


def curves_svg(places: Sequence[int], series: Mapping[str, Sequence[Dot]], *, across: str, label: str) -> str:
    """Draw one curve a series over whole numbers, its intervals as a band.

    Args:
        places: Where the dots stand, ascending.
        series: Legend -> one dot a place; at most as many as there are colours can be told apart.
        across: What the horizontal axis is.
        label: What the vertical axis is.

    Returns:
        SVG text.

    Raises:
        ConfigError: If matplotlib is missing.
    """
    figure = _figure(6.0, 3.4)
    with _style():
        axes = figure.subplots()
        for number, (legend, dots) in enumerate(series.items()):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            values = [math.nan if dot.value is None else dot.value for dot in dots]
            axes.plot(places, values, label=legend, color=colour, marker=marker, markersize=4)
            low, high = ([math.nan if end is None else end for end in ends] for ends in _ends(dots))
            axes.fill_between(places, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.set_xticks(list(places))
        axes.set_xlabel(across)
        axes.set_ylabel(label)
        figure.legend(loc="outside upper right", ncols=len(series))
        return _svg(figure)


def histograms_svg(panels: Mapping[str, Mapping[str, Sequence[float]]], *, label: str, columns: int = 2) -> str:
    """Draw one panel a name: how the values of each kind are spread, as shares of the kind.

    Args:
        panels: Panel -> kind -> values; a kind without values is not drawn.
        label: What the vertical axis is.
        columns: Panels side by side.

    Returns:
        SVG text.

    Raises:
        ConfigError: If matplotlib is missing.
    """
    rows = -(-len(panels) // columns)
    figure = _figure(3.6 * min(columns, len(panels)), 0.4 + 2.2 * rows)
    with _style():
        cells = list(figure.subplots(rows, min(columns, len(panels)), squeeze=False).flat)
        for axes, (name, kinds) in zip(cells, panels.items(), strict=False):
            _draw_histogram(axes, name, kinds, label)
        for axes in cells[len(panels) :]:
            axes.remove()
        return _svg(figure)


def _ends(dots: Sequence[Dot]) -> tuple[list[float | None], list[float | None]]:
    return [dot.low for dot in dots], [dot.high for dot in dots]


def _draw_dots(axes: Axes, places: Sequence[float], dots: Sequence[Dot], legend: str, number: int) -> None:
    kept = [(dot.value, dot, place) for dot, place in zip(dots, places, strict=True) if dot.value is not None]
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    values = [value for value, _, _ in kept]
    axes.plot(values, [place for _, _, place in kept], linestyle="", label=legend, color=colour, marker=marker)
    for _, dot, place in kept:
        if dot.low is not None and dot.high is not None:
            axes.plot([dot.low, dot.high], [place, place], color=colour, linewidth=1.6, solid_capstyle="round")


def _draw_histogram(axes: Axes, name: str, kinds: Mapping[str, Sequence[float]], label: str) -> None:
    import numpy as np

    every = [value for values in kinds.values() for value in values]
    axes.set_title(_wrapped(name), fontsize=9, loc="left")
    axes.set_ylabel(label)
    if not every:
        axes.text(0.5, 0.5, "no number", ha="center", va="center", transform=axes.transAxes)
        return
    low, high = min(every), max(every)
    # One bin for a constant; its width is only for the eye.
    width = (high - low) or max(abs(low), 1.0) * 0.1
    bins = min(MOST_BINS, max(1, round(len(every) ** 0.5))) if high > low else 1
    edges = np.linspace(low - (0 if high > low else width / 2), high + (0 if high > low else width / 2), bins + 1)
    for number, (kind, values) in enumerate(kinds.items()):
        if values:
            shares = np.histogram(values, edges)[0] / len(values)
            axes.stairs(shares, edges, color=COLOURS[number % len(COLOURS)], linewidth=1.5, label=kind)
            axes.stairs(shares, edges, color=COLOURS[number % len(COLOURS)], alpha=0.15, fill=True)
    axes.legend(fontsize=8)


def _wrapped(name: str) -> str:
    """Break a long name at its commas."""
    if len(name) <= LONGEST_NAME:
        return name
    return textwrap.fill(name.replace(",", ", "), LONGEST_NAME, break_long_words=False, break_on_hyphens=False)


def _figure(width: float, height: float) -> Figure:
    check_plots()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _style() -> Any:
    import matplotlib

    settings: Any = STYLE
    return matplotlib.rc_context(settings)


def _svg(figure: Figure) -> str:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.BytesIO()
    # Without the date, equal numbers give equal bytes.
    canvas: Any = FigureCanvasSVG(figure)
    with warnings.catch_warnings():
        # Text stays text, so the viewer's fonts draw what matplotlib's own one lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        canvas.print_svg(buffer, metadata={"Date": None, "Creator": "utilitune"})
    return buffer.getvalue().decode("utf-8")
