"""Fields of a row: taken out, checked, and refused with what was found and expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from utilitune.records.problem import RowError

Row = Mapping[str, Any]
ROLES = ("user", "assistant", "system")


def shown(value: Any) -> str:
    """Return a short form of a value for messages."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def required(row: Row, name: str) -> Any:
    """Return a field that must be there and not be null."""
    if row.get(name) is None:
        raise RowError(f"{name!r} is missing; found the keys {', '.join(map(repr, row)) or 'none'}")
    return row[name]


def text_field(row: Row, name: str) -> str:
    """Return a required string."""
    value = required(row, name)
    if not isinstance(value, str):
        raise RowError(f"{name!r} is {shown(value)}; expected a string")
    return value


def as_id(value: Any, name: str) -> str:
    """Return an id as a string; whole numbers are written out.

    Args:
        value: What the row holds.
        name: Field name, for the message.

    Returns:
        The id; ``7`` becomes ``"7"``, ``"007"`` stays.

    Raises:
        RowError: If it is empty, neither string nor whole number, or holds a tab or line end (no run file
            could).
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise RowError(f"{name!r} is {shown(value)}; expected a string")
    if not value.strip():
        raise RowError(f"{name!r} is empty; expected an id")
    if any(mark in value for mark in "\t\n\r"):
        raise RowError(f"{name!r} is {shown(value)}; an id must not hold a tab or a line end")
    return value


def id_field(row: Row, name: str) -> str:
    """Return a required id."""
    return as_id(required(row, name), name)


def ids_field(row: Row, name: str, *, optional: bool = False) -> tuple[str, ...]:
    """Return a list of ids; a missing one is empty when ``optional``."""
    value = row.get(name) if optional else required(row, name)
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise RowError(f"{name!r} is {shown(value)}; expected a list of ids")
    return tuple(as_id(item, name) for item in value)


def number_field(row: Row, name: str) -> float:
    """Return a required number."""
    value = required(row, name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RowError(f"{name!r} is {shown(value)}; expected a number")
    return float(value)


def optional_number(row: Row, name: str) -> float | None:
    """Return a number or ``None``."""
    return None if row.get(name) is None else number_field(row, name)


def messages_field(row: Row, name: str, roles: tuple[str, ...] = ROLES) -> tuple[dict[str, str], ...]:
    """Return a list of chat messages.

    Args:
        row: The row.
        name: Field name.
        roles: Roles allowed.

    Returns:
        Messages with ``role`` and ``content``; a null content is empty.

    Raises:
        RowError: If the field is not a list of such messages.
    """
    value = required(row, name)
    form = '{"role": ..., "content": ...}'
    if not isinstance(value, (list, tuple)):
        raise RowError(f"{name!r} is {shown(value)}; expected a list of {form}")
    messages = []
    for index, item in enumerate(value):
        if not isinstance(item, Mapping) or "role" not in item:
            raise RowError(f"'{name}[{index}]' is {shown(item)}; expected {form}")
        role, content = item["role"], item.get("content")
        if role not in roles:
            raise RowError(f"'{name}[{index}].role' is {shown(role)}; expected one of {', '.join(map(repr, roles))}")
        if content is not None and not isinstance(content, str):
            raise RowError(f"'{name}[{index}].content' is {shown(content)}; expected a string")
        messages.append({"role": str(role), "content": content or ""})
    return tuple(messages)
