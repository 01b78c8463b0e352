"""Calls of a utility: what it asks and what it makes of the responses, looked at, as anybody may have written it."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from utilitune.errors import ConfigError, UtilituneError
from utilitune.generator.protocol import Continuation
from utilitune.scoring.protocol import Request, Utility, Value
from utilitune.scoring.work_list import Item


def requests_of(utility: Utility, item: Item) -> Mapping[str, Request]:
    """Return what a utility asks for.

    Args:
        utility: The utility.
        item: Query and passages.

    Returns:
        Its named requests.

    Raises:
        ConfigError: If it raises anything, or asks for what is no request.
    """
    try:
        named: Any = utility.requests(*item)
        if not isinstance(named, Mapping) or not all(isinstance(each, Request) for each in named.values()):
            raise TypeError(f"found {_shown(named)}, expected a mapping of names to Greedy, Force, Rescore, Draw, ...")
    except UtilituneError:
        raise
    except Exception as error:
        raise _fault(utility, item, "requests", error) from error
    return dict(named)


def value_of(utility: Utility, item: Item, responses: Mapping[str, Continuation]) -> Value:
    """Return what a utility makes of the responses.

    Args:
        utility: The utility.
        item: Query and passages.
        responses: As its requests were named.

    Returns:
        A number (it may be NaN) and a mapping.

    Raises:
        ConfigError: If it raises anything but a ``ValueError``, or does not give a ``Value``.
        ValueError: If the utility says that there is no number.
    """
    try:
        value: Any = utility.value(*item, responses)
        number: Any = value.utility if isinstance(value, Value) else ""
        if isinstance(number, str) or not isinstance(value.evidence, Mapping):
            raise TypeError(f"found {_shown(value)}, expected a Value of a number and a mapping")
        return Value(float(number), value.evidence)
    except (UtilituneError, ValueError):
        raise
    except Exception as error:
        raise _fault(utility, item, "value", error) from error


def _fault(utility: Utility, item: Item, method: str, error: Exception) -> ConfigError:
    last = traceback.extract_tb(error.__traceback__)[-1]
    query, passages = item
    about = f"query {query.id!r} with passages {', '.join(each.id for each in passages) or 'none'}"
    return ConfigError(
        f"utility {utility.name!r}: {method}() failed on {about}: {type(error).__name__}: {error} "
        f"({last.filename}:{last.lineno}); mend it and start again: what the generator answered is in the store"
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
