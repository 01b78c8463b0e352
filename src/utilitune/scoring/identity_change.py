"""Why a label store that knows a model has nothing for it: what of the generator's identity has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from utilitune.generator.protocol import GeneratorIdentity
from utilitune.scoring.origin import FORMAT_1
from utilitune.scoring.store import LabelStore
from utilitune.scoring.store_rows import reading, sources_of


def identity_change(store: LabelStore, identity: GeneratorIdentity) -> str:
    """Compare a generator with those that a store holds responses of.

    Args:
        store: An open store.
        identity: The generator's.

    Returns:
        What a user must know when the store answers nothing: which parts of the identity differ from the most similar
        one of the same model, or that rows of format 1 do not say whose they are. Empty when the store knows this very
        identity, or no such model.

    Raises:
        DataError: If the file cannot be read.
    """
    with reading(store) as db:
        sources = sources_of(db).values()
    known = {source.generator: source.identity for source in sources if source.identity}
    if identity.key() in known:
        return ""
    now = _flat(identity.as_dict())
    others = [_flat(json.loads(text)) for text in known.values()]
    differences = [
        [f"{part} ({other.get(part)!r} there, {now.get(part)!r} now)" for part in _differing(other, now)]
        for other in others
        if other.get("model") == now["model"]
    ]
    if differences:
        least: list[str] = min(differences, key=len)
        return f"the store knows {identity.model} with other {', '.join(least)}"
    if any(source.kind == FORMAT_1 for source in sources):
        return "rows of format 1 do not say whose they are: of other requests, or of a generator that has changed since"
    return ""


def _flat(identity: Mapping[str, Any]) -> dict[str, Any]:
    options = identity.get("options") or {}
    own = {part: value for part, value in identity.items() if part != "options"}
    return {**own, **{f"options.{part}": value for part, value in options.items()}}


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [part for part in dict.fromkeys((*one, *other)) if one.get(part) != other.get(part)]
