"""``groups.jsonl``: training groups on disk, with their account in ``groups.manifest.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from utilitune.errors import DataError
from utilitune.rerank.groups import Group, Groups
from utilitune.rerank.relevance import Relevance

_LISTS = ("passage_ids", "passages", "utilities", "targets")


def write_groups(path: Path | str, groups: Groups) -> None:
    """Write groups, one row a query, with ``<stem>.manifest.json`` beside (rule, label sets, drops).

    Args:
        path: ``*.jsonl``, ``*.jsonl.gz`` or ``*.parquet``.
        groups: What ``build_groups`` made.
    """
    from utilitune.records import manifest, write_json, write_rows

    rows = (
        {
            "query_id": group.query_id,
            "conversation": group.conversation,
            "query": group.query,
            "passage_ids": list(group.passage_ids),
            "passages": list(group.passages),
            "utilities": list(group.utilities),
            "targets": list(group.targets),
        }
        for group in groups
    )
    write_rows(path, rows)
    account = manifest(
        **groups.account(),
        drops=groups.drops,
        groups=len(groups),
        pairs=groups.pairs,
    )
    write_json(_manifest_path(path), account)


def read_groups(path: Path | str) -> Groups:
    """Read groups that ``write_groups`` wrote, or that another tool wrote in the same form.

    Args:
        path: The rows. The manifest beside them is optional: without it the rule is ``none`` (targets as
            given).

    Returns:
        The groups; integer utilities and targets become floats.

    Raises:
        DataError: With file:line, for a row that is not a group.
    """
    from utilitune.records import read_rows

    groups = [_group(f"{path}:{line}", row) for line, row in read_rows(path)]
    side = _manifest_path(path)
    account: dict[str, Any] = json.loads(side.read_text(encoding="utf-8")) if side.exists() else {}
    try:
        relevance = Relevance(**account["relevance"]) if account.get("relevance") else None
    except TypeError as error:
        raise DataError(f"{side}: relevance is {account['relevance']!r}; source, threshold, gamma expected") from error
    return Groups(
        groups,
        dict(account.get("drops", {})),
        str(account.get("rescale", "none")),
        float(account.get("temperature", 1.0)),
        tuple(account.get("label_sets", ())),
        relevance,
    )


def _manifest_path(path: Path | str) -> Path:
    path = Path(path)
    return path.with_name(path.name.partition(".")[0] + ".manifest.json")


def _group(where: str, row: Mapping[str, Any]) -> Group:
    missing = [name for name in ("query_id", "query", *_LISTS) if name not in row]
    if missing:
        raise DataError(f"{where}: no {', '.join(missing)}; a group has query_id, query, {', '.join(_LISTS)}")
    lengths = {name: len(row[name]) for name in _LISTS}
    if len(set(lengths.values())) != 1:
        raise DataError(f"{where}: lists of different length ({lengths}); one entry a candidate is expected")
    numbers = {name: tuple(_number(where, name, value) for value in row[name]) for name in ("utilities", "targets")}
    return Group(
        str(row["query_id"]),
        str(row["query"]),
        tuple(str(value) for value in row["passage_ids"]),
        tuple(str(value) for value in row["passages"]),
        numbers["utilities"],
        numbers["targets"],
        str(row.get("conversation") or row["query_id"]),
    )


def _number(where: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"{where}: {name} holds {value!r}; finite numbers are expected")
    return float(value)
