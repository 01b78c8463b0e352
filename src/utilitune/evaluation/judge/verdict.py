"""From a judge's words to a verdict: strict, since a guessed verdict is a wrong number that nobody sees."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

Position = Literal["first", "second", "tie"]

_POSITIONS: dict[str, Position] = {"1": "first", "a": "first", "2": "second", "b": "second"}
_NAMED = re.compile(r"(?:the )?(?:answer|option|response|assistant)? ?([12ab])")
_TIES = frozenset({"tie", "tied", "a tie", "draw", "equal", "both", "neither", "none"})
# A letter alone, or followed by punctuation: "A better answer is B" begins with an article.
_LEADING = re.compile(r"\W*(?:answer\s+)?([AB12])(?:\W*$|[.:,;)\]*])", re.IGNORECASE)
_LEADING_TIE = re.compile(r"\W*tie\b", re.IGNORECASE)


def parse_winner(text: str) -> Position | None:
    """Read the name of a winner.

    Args:
        text: Such as ``"Answer 1"``, ``"2"``, ``"answer b."`` or ``"Tie"``.

    Returns:
        The position that won, or ``None`` where the text names no one or more than one.
    """
    bare = " ".join(re.sub(r"[^\w ]", " ", text.casefold().replace("_", " ")).split())
    if bare in _TIES:
        return "tie"
    match = _NAMED.fullmatch(bare)
    return _POSITIONS[match.group(1)] if match else None


def parse_letter(reply: str) -> Position | None:
    """Read a reply that should be one letter.

    Args:
        reply: Such as ``"A"``, ``"Answer B."``, ``"A: because ..."``.

    Returns:
        The position that won, or ``None``.
    """
    if _LEADING_TIE.match(reply):
        return "tie"
    match = _LEADING.match(reply)
    return _POSITIONS[match.group(1).casefold()] if match else None


def parse_json(reply: str, dimensions: Sequence[str]) -> dict[str, Position | None]:
    """Read a reply that should be JSON with one winner a dimension.

    Keys are compared without case, ``"Overall Winner"`` counts for ``Overall``, and the winner may stand in an object
    under ``"Winner"`` or alone. Prose and code fences around the object are passed over; of a reply that was cut, the
    dimensions that are whole are read.

    Args:
        reply: The reply.
        dimensions: The dimensions that were asked for.

    Returns:
        A position or ``None`` for each of ``dimensions``.
    """
    keys = {name.casefold(): name for name in dimensions}
    keys |= {f"{name.casefold()} winner": name for name in dimensions}
    for found in _objects(reply):
        named = {keys[key.casefold()]: value for key, value in found.items() if key.casefold() in keys}
        if named:
            return {name: _winner(named.get(name)) for name in dimensions}
    return {name: _salvaged(reply, name) for name in dimensions}


def _objects(reply: str) -> Iterator[Mapping[str, Any]]:
    """Yield the outermost JSON objects of a text."""
    decoder = json.JSONDecoder()
    at = reply.find("{")
    while at >= 0:
        try:
            found, end = decoder.raw_decode(reply, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(found, dict):
                yield found
        at = reply.find("{", end)


def _winner(value: Any) -> Position | None:
    if isinstance(value, Mapping):
        value = next((each for key, each in value.items() if str(key).casefold() == "winner"), None)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return parse_winner(value) if isinstance(value, str) else None


def _salvaged(reply: str, dimension: str) -> Position | None:
    match = re.search(
        rf'"{re.escape(dimension)}(?: winner)?"\s*:\s*\{{\s*"winner"\s*:\s*"([^"]*)"', reply, re.IGNORECASE
    )
    return parse_winner(match.group(1)) if match else None
