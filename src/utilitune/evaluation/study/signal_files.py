"""The files of a signal study."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from utilitune.evaluation.study.plots import Dot, dots_svg, histograms_svg
from utilitune.evaluation.study.signal_study import SignalStudy
from utilitune.evaluation.study.signal_table import signal_markdown
from utilitune.records.atomic import write_json, write_text


def write_signal(folder: Path | str, study: SignalStudy) -> dict[str, Path]:
    """Write a study: ``signal.json``, ``table.md``, ``pairs.csv``, ``signal.svg``, ``values.svg``.

    Args:
        folder: Where to write; made if needed. Files of an earlier study are replaced, each atomically.
        study: The study.

    Returns:
        The paths, by file name.

    Raises:
        ConfigError: If matplotlib is missing; the other files are there then.
    """
    home = Path(folder)
    paths = {name: home / name for name in ("signal.json", "table.md", "pairs.csv", "signal.svg", "values.svg")}
    write_json(paths["signal.json"], study.as_dict())
    write_text(paths["table.md"], signal_markdown(study))
    write_text(paths["pairs.csv"], pairs_csv(study))
    write_text(paths["signal.svg"], signal_svg(study))
    write_text(paths["values.svg"], values_svg(study))
    return paths


def pairs_csv(study: SignalStudy) -> str:
    """Return one line a (question, passage), one column a utility; blank where there is no number."""
    names = [signal.name for signal in study.signals]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["query_id", "role", "place", "passage_id", "right", *names])
    for row in study.pairs:
        right = "" if row.right is None else int(row.right)
        numbers = [repr(row.utilities[name]) if name in row.utilities else "" for name in names]
        writer.writerow([row.query_id, row.role, row.place, row.passage_id, right, *numbers])
    return out.getvalue()


def signal_svg(study: SignalStudy) -> str:
    """Return the figure of the shares: one row a utility, a dot over hard and one over random passages."""
    names = [signal.name for signal in study.signals]
    hard = [Dot(signal.hard.share, signal.hard.low, signal.hard.high) for signal in study.signals]
    random = [Dot(signal.random.share, signal.random.low, signal.random.high) for signal in study.signals]
    series = {"hard BM25 distractors": hard, "random passages": random}
    return dots_svg(names, series, label="share of passages that the gold passage beats", chance=0.5)


def values_svg(study: SignalStudy) -> str:
    """Return the figure of the values: one panel a utility, gold, hard and random passages apart."""
    panels = {
        signal.name: {
            "gold": study.values(signal.name, "gold"),
            "hard": study.values(signal.name, "hard"),
            "random": study.values(signal.name, "random"),
        }
        for signal in study.signals
    }
    return histograms_svg(panels, label="share of passages")
