"""Strict JSON text from Python values: NumPy cast, NaN refused with its place."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from utilitune.errors import DataError


def encode(obj: Any, *, place: str, indent: int | None = None) -> str:
    """Return ``obj`` as JSON text, non-ASCII letters unescaped.

    Args:
        obj: Mappings, sequences, strings, numbers, booleans, ``None``, NumPy scalars and arrays, dates,
            paths.
        place: Where the text is going, for the error message.
        indent: Spaces a level; one line when ``None``.

    Returns:
        JSON text without ``NaN`` and ``Infinity``, which are not JSON and break other readers.

    Raises:
        DataError: If a number is not finite or a value has no JSON form.
    """
    try:
        return json.dumps(obj, ensure_ascii=False, allow_nan=False, indent=indent, default=_cast)
    except (ValueError, TypeError) as error:
        where = not_finite(obj)
        if where is None:
            raise DataError(f"{place}: cannot be written as JSON: {error}") from error
        raise DataError(f"{place}: the number at {where} is not finite, and JSON has no NaN") from error


def _cast(value: Any) -> Any:
    """Cast what the JSON encoder does not know."""
    if hasattr(value, "tolist"):  # NumPy scalars and arrays, zero-dimensional tensors
        return value.tolist()
    if isinstance(value, (PurePath, datetime.date)):
        return value.isoformat() if isinstance(value, datetime.date) else str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (Sequence, frozenset, set)) and not isinstance(value, (bytes, bytearray)):
        return list(value) if isinstance(value, Sequence) else sorted(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def not_finite(obj: Any, path: str = "$") -> str | None:
    """Return the path of the first number that is NaN or infinite, e.g. ``"$.evidence.entropies[3]"``.

    Args:
        obj: A nested value.
        path: Path of ``obj`` itself.

    Returns:
        The path, or ``None`` when all numbers are finite.
    """
    if hasattr(obj, "tolist"):
        obj = obj.tolist()
    if isinstance(obj, float):
        return None if math.isfinite(obj) else path
    if isinstance(obj, Mapping):
        children = ((f"{path}.{key}", value) for key, value in obj.items())
    elif isinstance(obj, (list, tuple)):
        children = ((f"{path}[{index}]", value) for index, value in enumerate(obj))
    else:
        return None
    return next((found for where, value in children if (found := not_finite(value, where))), None)


def finite_only(obj: Any) -> tuple[Any, int]:
    """Return ``obj`` with numbers that are not finite replaced by ``None``, and how many there were.

    Args:
        obj: A nested value.

    Returns:
        A JSON-ready copy and the number of replacements.
    """
    if hasattr(obj, "tolist"):
        obj = obj.tolist()
    if isinstance(obj, float):
        return (obj, 0) if math.isfinite(obj) else (None, 1)
    if isinstance(obj, Mapping):
        cleaned = {key: finite_only(value) for key, value in obj.items()}
        return {key: value for key, (value, _) in cleaned.items()}, sum(n for _, n in cleaned.values())
    if isinstance(obj, (list, tuple)):
        items = [finite_only(value) for value in obj]
        return [value for value, _ in items], sum(n for _, n in items)
    return obj, 0
