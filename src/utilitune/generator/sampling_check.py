"""The range of settings that every backend writes answers at."""

from __future__ import annotations

from collections.abc import Sequence


def check_sampling(max_new_tokens: int, n: int, temperature: float, top_p: float, stop: Sequence[str]) -> None:
    """Refuse settings that have no meaning."""
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {max_new_tokens}, it must be at least 1")
    if n < 1:
        raise ValueError(f"n is {n}, it must be at least 1")
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature is {temperature}, it must be 0 (greedy) or positive")
    if n > 1 and temperature == 0:
        raise ValueError(f"n is {n} at temperature 0: greedy answers are all the same; set temperature above 0")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}, it must lie in (0, 1]")
    if isinstance(stop, str) or not all(stop):
        raise ValueError(f"stop is {stop!r}, it must be a list of non-empty strings")
