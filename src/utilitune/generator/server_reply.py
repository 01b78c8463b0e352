"""Reading log-probabilities out of a reply, in the two forms that servers use; a missing number stays missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from utilitune.generator.server_entropy import FLOOR
from utilitune.generator.server_error import RequestFailed


@dataclass(frozen=True)
class Position:
    """One token of a reply.

    Attributes:
        token: Its surface.
        token_id: Its id, ``None`` when the server gives none.
        logprob: ln p, ``None`` when the server gives none.
        top: ln p of the likeliest tokens and of this one, every token once.
    """

    token: str
    token_id: int | None
    logprob: float | None
    top: tuple[float, ...] = ()


def first_choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the one choice of a reply to a request for one.

    Args:
        reply: The reply.

    Returns:
        The choice.

    Raises:
        RequestFailed: When there is not exactly one.
    """
    choices = reply.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        found = len(choices) if isinstance(choices, list) else "no"
        raise RequestFailed(f"the server answered with {found} choices, expected 1")
    return choices[0]


def positions(choice: Mapping[str, Any]) -> list[Position]:
    """Read the tokens of a choice: ``logprobs.tokens`` (completions) or ``logprobs.content`` (chat, llama.cpp).

    Args:
        choice: The choice.

    Returns:
        One entry a token; none when the server gives no log-probabilities.
    """
    given = choice.get("logprobs")
    if not isinstance(given, Mapping):
        return []
    content = given.get("content")
    if isinstance(content, list):
        return [_of_content(each) for each in content if isinstance(each, Mapping)]
    tokens, numbers, tops = (_list(given.get(name)) for name in ("tokens", "token_logprobs", "top_logprobs"))
    if len(numbers) != len(tokens):
        return []
    tops = tops if len(tops) == len(tokens) else [None] * len(tokens)
    return [_of_columns(str(token), number, top) for token, number, top in zip(tokens, numbers, tops, strict=True)]


def prompt_positions(entries: Sequence[Any], ids: Sequence[int]) -> list[Position]:
    """Read ``prompt_logprobs`` (vLLM): one object a token, id -> number.

    Args:
        entries: The entries that belong to ``ids``.
        ids: Token ids, as many.

    Returns:
        One entry a token.
    """
    read = []
    for entry, token in zip(entries, ids, strict=True):
        named = entry if isinstance(entry, Mapping) else {}
        own = named.get(str(token))
        own = own if isinstance(own, Mapping) else {}
        top = [_number(each.get("logprob"), keep=True) for each in named.values() if isinstance(each, Mapping)]
        read.append(
            Position(
                str(own.get("decoded_token") or ""),
                token,
                _number(own.get("logprob")),
                tuple(number for number in top if number is not None),
            )
        )
    return read


def _of_content(entry: Mapping[str, Any]) -> Position:
    token, number, name = str(entry.get("token", "")), _number(entry.get("logprob")), entry.get("id")
    top, present = [], False
    for each in _list(entry.get("top_logprobs")):
        if isinstance(each, Mapping) and (value := _number(each.get("logprob"), keep=True)) is not None:
            top.append(value)
            present = present or (each.get("token") == token and each.get("id") == name)
    # An empty list is no knowledge about the distribution, although one of its numbers is there.
    if top and not present and number is not None:
        top.append(number)
    return Position(token, name if isinstance(name, int) else None, number, tuple(top))


def _of_columns(token: str, number: Any, top: Any) -> Position:
    value = _number(number)
    known = {key: _number(each, keep=True) for key, each in top.items()} if isinstance(top, Mapping) else {}
    if known and value is not None:
        known.setdefault(token, value)
    return Position(token, None, value, tuple(each for each in known.values() if each is not None))


def _number(value: Any, keep: bool = False) -> float | None:
    """Return a log-probability; a filler is none, unless it is asked for as a probability of 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    number = float(value)
    return number if keep or (isfinite(number) and number > FLOOR) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
