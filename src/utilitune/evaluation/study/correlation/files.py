"""The files of a correlation study."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from utilitune.evaluation.study.correlation.figures import correlation_svg, ideal_svg, lengths_svg, position_svg
from utilitune.evaluation.study.correlation.study import CorrelationStudy
from utilitune.evaluation.study.correlation.table import correlation_markdown, correlation_text
from utilitune.records.answers import write_answers
from utilitune.records.atomic import write_json, write_text
from utilitune.records.label import Labels
from utilitune.records.labels import write_labels


def write_correlation(folder: Path | str, study: CorrelationStudy) -> dict[str, Path]:
    """Write a study.

    Args:
        folder: Where to write; made if needed. Files of an earlier study are replaced, each atomically.
        study: The study.

    Returns:
        The paths, by file name: ``correlation.json``, ``table.txt``, ``table.md``, ``lists.csv``, ``answers.jsonl``,
        ``labels.jsonl`` (utilities of single passages), ``theta-K.json`` (UDCGθ of each list length, for other data),
        ``correlation.svg``, ``lengths.svg``, ``position.svg``, ``ideal.svg``; those of parts that were left out are
        not there.

    Raises:
        ConfigError: If matplotlib is missing; the other files are there then.
    """
    home = Path(folder)
    paths: dict[str, Path] = {}

    def place(name: str) -> Path:
        paths[name] = home / name
        return paths[name]

    write_json(place("correlation.json"), study.as_dict())
    write_text(place("table.txt"), correlation_text(study))
    write_text(place("table.md"), correlation_markdown(study))
    write_text(place("lists.csv"), lists_csv(study))
    write_answers(place("answers.jsonl"), study.answers)
    write_labels(place("labels.jsonl"), Labels(study.labels.rows, study.manifest))
    for k, fitted in study.theta.items():
        fitted.save(place(f"theta-{k}.json"))
    write_text(place("correlation.svg"), correlation_svg(study))
    write_text(place("lengths.svg"), lengths_svg(study))
    if study.position is not None:
        write_text(place("position.svg"), position_svg(study.position))
    if study.ideal is not None:
        write_text(place("ideal.svg"), ideal_svg(study.ideal))
    return paths


def lists_csv(study: CorrelationStudy) -> str:
    """Return one line a list, one column a metric; blank where there is no number."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["query_id", "system", "k", "passages", "relevant", "right", "abstained", *study.metrics])
    for ranked in study.lists:
        numbers = [repr(ranked.values[name]) if name in ranked.values else "" for name in study.metrics]
        counted = [len(ranked.passage_ids), sum(ranked.relevant), int(ranked.right), int(ranked.abstained)]
        writer.writerow([ranked.query_id, ranked.system, ranked.k, *counted, *numbers])
    return out.getvalue()
