"""From responses to one label row, and what makes two rows comparable: the label set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from math import isfinite, isnan
from statistics import pstdev
from typing import Any

from utilitune.generator.protocol import Continuation
from utilitune.records.label import Status, UtilityLabel
from utilitune.records.plain import encode, finite_only
from utilitune.scoring.failure import Failure
from utilitune.scoring.protocol import Utility
from utilitune.scoring.utility_call import value_of
from utilitune.scoring.work_list import Item

# A utility that hardly varies cannot rank passages; the floor is the one for UDCG's u (arXiv 2510.21440).
CONSTANT_STD = 0.02
CONSTANT_ROWS = 50


def label_set_of(utility: Utility, identity: Mapping[str, Any]) -> str:
    """Return ``"<name>@<8 hex digits>"``; the digits hash parameters and the generator's identity (``as_dict()``)."""
    content = [utility.name, dict(utility.parameters), dict(identity)]
    return f"{utility.name}@{sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]}"


def label_row(
    item: Item, label_set: str, utility: Utility, responses: Mapping[str, Continuation | Failure]
) -> UtilityLabel:
    """Compute one row: ``failed`` without all responses, ``invalid`` when the number is not finite or made of a NaN."""
    got = {name: each for name, each in responses.items() if not isinstance(each, Failure)}
    for name, each in responses.items():
        if isinstance(each, Failure):
            return _row(item, label_set, None, "failed", {"reason": f"{name}: {each.reason}"})
    for name, each in got.items():
        # A maximum or a threshold would hide a NaN from the utility's own number.
        if any(map(isnan, (*each.logprobs, *(each.entropies or ())))):
            return _row(item, label_set, None, "invalid", {"reason": f"{name}: the generator gave NaN"})
    try:
        value = value_of(utility, item, got)
    except ValueError as error:
        return _row(item, label_set, None, "failed", {"reason": str(error)})
    evidence = _json_ready(dict(value.evidence), f"utility {utility.name!r}: evidence")
    evidence.setdefault("truncated", any(each.truncated for each in got.values()))
    number = value.utility
    if not isfinite(number):
        return _row(item, label_set, None, "invalid", {"reason": f"the utility is {number}", **evidence})
    return _row(item, label_set, number, "ok", evidence)


def skipped_row(item: Item, label_set: str, reason: str) -> UtilityLabel:
    """Return a row that says why there is no number."""
    return _row(item, label_set, None, "skipped", {"reason": reason})


def missing_row(item: Item, label_set: str, row: UtilityLabel) -> UtilityLabel:
    """Return a row that has no number for the reason that ``row`` has none."""
    return _row(item, label_set, None, row.status, dict(row.evidence))


def _row(item: Item, label_set: str, number: float | None, status: Status, evidence: dict[str, Any]) -> UtilityLabel:
    query, passages = item
    return UtilityLabel(query.id, tuple(each.id for each in passages), number, status, label_set, evidence)


def _json_ready(evidence: dict[str, Any], place: str) -> dict[str, Any]:
    """Return ``evidence`` with every NaN or infinity as ``None``; the common case costs one fast encoding."""
    try:
        json.dumps(evidence, allow_nan=False)
    except (ValueError, TypeError):
        cleaned: dict[str, Any] = finite_only(evidence)[0]
        encode(cleaned, place=place)  # refused here, not when all the work is done and the file is written
        return cleaned
    return evidence


def constant_sets(rows: Iterable[UtilityLabel]) -> dict[str, str]:
    """Return a warning for every label set whose utilities hardly differ.

    Args:
        rows: Labels.

    Returns:
        Label set -> message, for standard deviations below 0.02 over at least 50 rows.
    """
    numbers: dict[str, list[float]] = {}
    for row in rows:
        if row.utility is not None:
            numbers.setdefault(row.label_set, []).append(row.utility)
    warnings = {}
    for label_set, values in numbers.items():
        if len(values) >= CONSTANT_ROWS and pstdev(values) < CONSTANT_STD:
            warnings[label_set] = (
                f"{label_set}: standard deviation {pstdev(values):.2g} over {len(values)} labels is below "
                f"{CONSTANT_STD}: this utility hardly tells passages apart with this generator"
            )
    return warnings
