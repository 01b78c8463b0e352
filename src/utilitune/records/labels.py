"""Label files: ``labels.jsonl`` and the manifest beside it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from utilitune.progress import warn
from utilitune.records.atomic import read_json, write_json
from utilitune.records.fields import id_field, ids_field, optional_number, required, shown, text_field
from utilitune.records.hashes import file_hash
from utilitune.records.label import Labels, Status, UtilityLabel
from utilitune.records.plain import finite_only
from utilitune.records.problem import Findings, Problem, RowError, place
from utilitune.records.rows import read_records, write_rows

HASH = "labels_sha256"


def manifest_path(path: Path | str) -> Path:
    """Return where the manifest of a label file lies: ``labels.jsonl[.gz]`` → ``labels.manifest.json``."""
    name = Path(path).name.removesuffix(".gz")
    return Path(path).with_name(f"{Path(name).stem}.manifest.json")


def read_labels(path: Path | str) -> Labels:
    """Read labels, and their manifest when it is there.

    Args:
        path: JSONL, gzipped JSONL or Parquet.

    Returns:
        Labels in file order; a row that comes twice is merged, and warned about. A manifest that was written
        with other labels is kept, and warned about.

    Raises:
        DataError: If a row is not as documented, or two rows give one passage set different values under one
            label set; lists the first ones as file:line.
    """
    rows = _unique(Path(path))
    side = manifest_path(path)
    if not side.exists():
        return Labels(rows)
    document = read_json(side)
    manifest = document.get("manifest", document) if isinstance(document, dict) else {}
    if manifest.get(HASH) not in (None, file_hash(path)):
        warn(f"{side} was written with other labels than {path} now holds; its counts may not apply")
    return Labels(rows, manifest)


def _unique(path: Path) -> list[UtilityLabel]:
    """Read rows, each key (query, passages, label set) once: a table by key would keep the last without a word."""
    findings, merged = Findings(), 0
    met: dict[tuple[str, tuple[str, ...], str], tuple[int, UtilityLabel]] = {}
    for line, row in read_records(path, parse_label):
        first, known = met.setdefault((row.query_id, row.passage_ids, row.label_set), (line, row))
        if known != row:
            message = f"{known.status} {known.utility} on line {first}, {row.status} {row.utility} here"
            key = f"({row.query_id}, {', '.join(row.passage_ids)}) under {row.label_set}"
            findings.error(Problem("contradiction", place(path, line), f"{key}: {message}; expected one row"))
        merged += first != line
    findings.raise_errors(str(path))
    if merged:
        warn(f"{path}: {merged} repeated row(s) merged")
    return [row for _, row in met.values()]


def parse_label(row: Mapping[str, Any]) -> UtilityLabel:
    """Make a label of a row.

    Args:
        row: The row.

    Returns:
        The label.

    Raises:
        RowError: If a field is missing or of the wrong kind, or ``utility`` and ``status`` contradict each
            other.
    """
    status, utility = text_field(row, "status"), optional_number(row, "utility")
    if status not in get_args(Status):
        raise RowError(f"'status' is {shown(status)}; expected one of {', '.join(get_args(Status))}")
    if (status == "ok") != (utility is not None):
        raise RowError(f"'status' is {status!r} and 'utility' is {utility}; a number goes with 'ok' and only with 'ok'")
    evidence = row.get("evidence") or {}
    if not isinstance(evidence, Mapping):
        raise RowError(f"'evidence' is {shown(evidence)}; expected an object")
    return UtilityLabel(
        query_id=id_field(row, "query_id"),
        passage_ids=ids_field(row, "passage_ids"),
        utility=utility,
        status=required(row, "status"),
        label_set=text_field(row, "label_set"),
        evidence=dict(evidence),
    )


def write_labels(path: Path | str, labels: Labels) -> None:
    """Write labels, then their manifest, each atomically.

    A utility that is not finite becomes a row with status ``invalid`` and no number; numbers in the evidence
    that are not finite become null. Both are counted in the manifest (``counts``) and warned about: work of
    hours is not lost over one NaN, and no reader meets one.

    Args:
        path: JSONL, ``.gz`` or Parquet.
        labels: Labels with manifest.
    """
    odd: Counter[str] = Counter()
    write_rows(path, (label_row(label, odd) for label in labels))
    for kind, count in odd.items():
        warn(f"{path}: {count} {kind}")
    counts = {**labels.manifest.get("counts", {}), **odd}
    fields = {
        **labels.manifest,
        "rows": len(labels),
        HASH: file_hash(path),
        **({"counts": counts} if counts else {}),
    }
    write_json(manifest_path(path), {"manifest": fields})


def label_row(label: UtilityLabel, odd: Counter[str]) -> dict[str, Any]:
    """Return a label's row.

    Args:
        label: The label.
        odd: Counts numbers that are not finite.

    Returns:
        A JSON-ready row.
    """
    utility, status = label.utility, label.status
    if utility is not None and not math.isfinite(utility):
        odd["utilities were not finite: status invalid"] += 1
        utility, status = None, "invalid"
    evidence, nulled = finite_only(label.evidence)
    if nulled:
        odd["numbers in the evidence were not finite: null"] += nulled
    return {
        "query_id": label.query_id,
        "passage_ids": list(label.passage_ids),
        "utility": None if utility is None else float(utility),
        "status": status,
        "evidence": evidence,
        "label_set": label.label_set,
    }
