"""A response as compact JSON text; floats survive exactly (Python writes text that reads back equal)."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from utilitune.generator.protocol import Continuation, Generation


def is_storable(response: Continuation) -> bool:
    """Return whether every number is finite and there is at least one token: only such responses are kept."""
    numbers = [*response.logprobs, *(response.entropies or ()), *(response.covered_mass or ())]
    numbers += [bound for pair in response.entropy_bounds or () for bound in pair]
    return bool(response.logprobs) and all(map(isfinite, numbers))


def encode(response: Continuation) -> str:
    """Return ``response`` as JSON; NumPy numbers become plain ones."""
    row: dict[str, Any] = {
        "text": response.text,
        "tokens": response.tokens,
        "ids": [int(each) for each in response.token_ids],
        "logprobs": [float(each) for each in response.logprobs],
    }
    if response.entropies is not None:
        row["entropies"] = [float(each) for each in response.entropies]
    if response.entropy_bounds is not None:
        row["bounds"] = [[float(low), float(high)] for low, high in response.entropy_bounds]
    if response.covered_mass is not None:
        row["mass"] = [float(each) for each in response.covered_mass]
    if response.truncated:
        row["truncated"] = True
    if isinstance(response, Generation):
        row["finish"] = response.finish
    return json.dumps(row, separators=(",", ":"))


def decode(text: str) -> Continuation:
    """Return the response that ``encode`` wrote."""
    row = json.loads(text)
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
    return Generation(**vars(response), finish=row["finish"]) if "finish" in row else response
