"""A response as JSON text: how stores of format 1 kept it."""

from __future__ import annotations

import json

from utilitune.generator.protocol import Continuation, Generation


def from_json(text: str) -> Continuation:
    """Return the response that a store of format 1 wrote.

    Args:
        text: One row's JSON.

    Returns:
        The response.

    Raises:
        ValueError: If it is not JSON, or lacks a field.
    """
    row = json.loads(text)
    try:
        response = Continuation(
            text=row["text"],
            tokens=tuple(row["tokens"]),
            token_ids=tuple(row["ids"]),
            logprobs=tuple(row["logprobs"]),
            entropies=tuple(row["entropies"]) if "entropies" in row else None,
            entropy_bounds=tuple((low, high) for low, high in row["bounds"]) if "bounds" in row else None,
            covered_mass=tuple(row["mass"]) if "mass" in row else None,
            truncated=row.get("truncated", False),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a response of format 1: {error!r}") from error
    return Generation(**vars(response), finish=row["finish"]) if "finish" in row else response
