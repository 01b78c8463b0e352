"""A response as bytes: numbers as IEEE floats that survive exactly, text as UTF-8.

Layout, little endian: version (1 byte), flags (1), number of tokens n (4), n token ids (4 each, absent when the backend
gives none), the numbers, then answer text, finish reason and token surfaces, joined by NUL. Numbers are n
log-probabilities and, where there are any, n entropies, 2n bounds, n masses; 4 bytes each when every one of them is a
float32 value (which is what models compute in), else 8.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from itertools import chain
from math import isfinite
from typing import Any

from utilitune.generator.protocol import Continuation, Generation

VERSION = 1
_HEAD = struct.Struct("<BBI")
_ENTROPIES, _BOUNDS, _MASS, _IDS, _TRUNCATED, _GENERATION, _SINGLE, _JSON = (1 << bit for bit in range(8))


def encode(response: Continuation) -> bytes | None:
    """Return a response as bytes; NumPy numbers become plain ones.

    Args:
        response: A response.

    Returns:
        Its bytes; ``None`` for one that must not be kept: without a token, without one number a token, or with a number
        that is not finite.
    """
    numbers, count, ids = _numbers(response), len(response.logprobs), response.token_ids
    if not count or not _is_whole(response, count) or not _are_finite(numbers):
        return None
    finish = response.finish if isinstance(response, Generation) else None
    flags = (
        (_ENTROPIES if response.entropies is not None else 0)
        | (_BOUNDS if response.entropy_bounds is not None else 0)
        | (_MASS if response.covered_mass is not None else 0)
        | (_IDS if ids else 0)
        | (_TRUNCATED if response.truncated else 0)
        | (_GENERATION if finish is not None else 0)
        | (_SINGLE if _fit_single(numbers) else 0)
    )
    parts = (response.text, finish or "", *response.tokens)
    text = "\0".join(parts)
    if text.count("\0") != count + 1:
        text, flags = json.dumps(parts), flags | _JSON
    # A byte-level vocabulary can spell half a character: lone surrogates must survive.
    return _layout(flags, count).pack(VERSION, flags, count, *ids, *numbers) + text.encode("utf-8", "surrogatepass")


def _numbers(response: Continuation) -> list[float]:
    numbers = list(response.logprobs)
    if response.entropies is not None:
        numbers += response.entropies
    if response.entropy_bounds is not None:
        numbers += chain.from_iterable(response.entropy_bounds)
    if response.covered_mass is not None:
        numbers += response.covered_mass
    return numbers


def _is_whole(response: Continuation, count: int) -> bool:
    """Tell whether every list that there is has one entry a token."""
    if len(response.tokens) != count or (response.token_ids and len(response.token_ids) != count):
        return False
    rest = (response.entropies, response.entropy_bounds, response.covered_mass)
    return all(part is None or len(part) == count for part in rest)


def _are_finite(numbers: list[float]) -> bool:
    # One bad number spoils the sum; a sum of good ones that overflows is looked at one by one.
    return isfinite(sum(numbers)) or all(map(isfinite, numbers))


def _fit_single(numbers: list[float]) -> bool:
    """Tell whether all numbers are float32 values."""
    layout = f"<{len(numbers)}f"
    try:
        return list(struct.unpack(layout, struct.pack(layout, *numbers))) == numbers
    except OverflowError:
        return False


@lru_cache(maxsize=1024)
def _layout(flags: int, count: int) -> struct.Struct:
    """Return the layout of everything before the text."""
    of_each = 1 + bool(flags & _ENTROPIES) + 2 * bool(flags & _BOUNDS) + bool(flags & _MASS)
    ids = count if flags & _IDS else 0
    return struct.Struct(f"<BBI{ids}i{of_each * count}{'f' if flags & _SINGLE else 'd'}")


def decode(data: bytes) -> Continuation:
    """Return the response that ``encode`` wrote.

    Args:
        data: One row's bytes.

    Returns:
        The response.

    Raises:
        ValueError: If the bytes are of another version, or damaged.
    """
    try:
        version, flags, count = _HEAD.unpack_from(data)
        if version != VERSION:
            raise ValueError(f"a response of layout {version}, expected {VERSION}")
        layout = _layout(flags, count)
        values = layout.unpack_from(data)[3:]
    except (struct.error, TypeError) as error:
        raise ValueError(f"not a response: {error}") from error
    text = data[layout.size :].decode("utf-8", "surrogatepass")
    parts = json.loads(text) if flags & _JSON else text.split("\0")
    if len(parts) != count + 2:
        raise ValueError(f"{len(parts) - 2} token surfaces for {count} tokens")
    # Half of a look-up's time would go into the constructor of a frozen class; this is how ``copy`` makes one.
    response = object.__new__(Generation if flags & _GENERATION else Continuation)
    response.__dict__.update(_fields(flags, count, values, parts))
    return response


def _fields(flags: int, count: int, values: tuple[Any, ...], parts: list[str]) -> dict[str, Any]:
    place = count if flags & _IDS else 0
    fields: dict[str, Any] = {
        "text": parts[0],
        "tokens": tuple(parts[2:]),
        "token_ids": values[:place],
        "logprobs": values[place : place + count],
        "entropies": None,
        "entropy_bounds": None,
        "covered_mass": None,
        "truncated": bool(flags & _TRUNCATED),
    }
    place += count
    if flags & _ENTROPIES:
        fields["entropies"], place = values[place : place + count], place + count
    if flags & _BOUNDS:
        flat, place = values[place : place + 2 * count], place + 2 * count
        fields["entropy_bounds"] = tuple(zip(flat[::2], flat[1::2], strict=True))
    if flags & _MASS:
        fields["covered_mass"] = values[place : place + count]
    if flags & _GENERATION:
        fields["finish"] = parts[1]
    return fields


def as_kept(response: Continuation, data: bytes) -> Continuation:
    """Return what ``decode(data)`` gives: ``response`` itself where its numbers are plain floats already."""
    plain = type(response.logprobs) is tuple and type(response.logprobs[0]) is float
    return response if plain else decode(data)
