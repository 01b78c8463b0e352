"""Which groups a model learns from, and which ones choose its checkpoint: split by conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from utilitune.errors import DataError
from utilitune.rerank.groups import Group, Groups


def as_groups(groups: Groups | Sequence[Group]) -> Groups:
    """Return ``Groups``; a bare sequence has targets as they are.

    Args:
        groups: Training groups.

    Returns:
        At least one group.

    Raises:
        DataError: If there is none.
    """
    made = groups if isinstance(groups, Groups) else Groups(list(groups), rule="none")
    if not len(made):
        raise DataError("no training groups: label at least two passages a query with different utilities first")
    return made


def sides(
    groups: Groups, dev_groups: Groups | Sequence[Group] | None, *, dev_share: float, seed: int
) -> tuple[Groups, list[Group], str]:
    """Return what to train on, what to measure on, and how the latter came about.

    Args:
        groups: At least one.
        dev_groups: Given dev groups; ``None`` holds some out.
        dev_share: Expected share held out, in [0, 1).
        seed: Of the held-out split.

    Returns:
        ``(train, dev, measured_on)``: ``given``, ``held-out``, or ``train`` when nothing could be held out.

    Raises:
        DataError: If a conversation is on both sides.
    """
    if dev_groups is not None and len(dev_groups):
        both = {group.conversation or group.query_id for group in groups} & {
            group.conversation or group.query_id for group in dev_groups
        }
        if both:
            raise DataError(
                f"{len(both)} conversations are in the training and the dev groups (first: {min(both)!r}); "
                "split by conversation"
            )
        return groups, list(dev_groups), "given"
    train, dev = hold_out(groups.groups, dev_share if dev_groups is None else 0.0, seed)
    if not dev:
        return groups, groups.groups, "train"
    return replace(groups, groups=train), dev, "held-out"


def hold_out(groups: Sequence[Group], share: float, seed: int) -> tuple[list[Group], list[Group]]:
    """Split groups by conversation; more groups never move the others to the other side.

    Args:
        groups: Any number.
        share: Expected share of the second part, in [0, 1).
        seed: Part of the hash that decides.

    Returns:
        ``(train, dev)``; with ``share`` > 0 and several conversations neither part is empty.
    """
    place = {unit: _unit_hash(unit, seed) for unit in {group.conversation or group.query_id for group in groups}}
    held = {unit for unit, position in place.items() if position < share}
    if share > 0 and len(place) > 1:
        ordered = sorted(place, key=place.__getitem__)
        held = held or {ordered[0]}
        held = held - {ordered[-1]} if len(held) == len(place) else held
    train = [group for group in groups if (group.conversation or group.query_id) not in held]
    dev = [group for group in groups if (group.conversation or group.query_id) in held]
    return train, dev


def _unit_hash(unit: str, seed: int) -> float:
    digest = hashlib.sha256(f"{seed}:{unit}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
