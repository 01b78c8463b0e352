"""Whether the Hub ids of a recipe stand for anything: looked up before the run, nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SECONDS = 10.0
ENCODERS = "sentence-transformers"
"""Where sentence-transformers looks for an id without an owner."""


def missing_models(named: Mapping[str, str]) -> list[str]:
    """Return the models that are neither packaged, nor a folder, nor in the cache, nor on the Hub.

    Args:
        named: ``{recipe key: model spec}``.

    Returns:
        Lines ``key: problem``.
    """
    problems: dict[str, str | None] = {}
    for spec in named.values():
        if spec not in problems:
            problems[spec] = None if spec.startswith("packaged:") or Path(spec).expanduser().is_dir() else _why(spec)
    return [f"{key}: {problems[spec]}" for key, spec in named.items() if problems[spec]]


def _why(spec: str) -> str | None:
    """Return why a Hub id cannot be had, or ``None``."""
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    ids = [spec] if "/" in spec else [spec, f"{ENCODERS}/{spec}"]
    try:
        if any(isinstance(try_to_load_from_cache(name, "config.json"), str) for name in ids):
            return None
    except HFValidationError:
        return f"model {spec!r} is neither a folder nor a Hub id; give a folder, a Hub id, or packaged:NAME"
    if constants.HF_HUB_OFFLINE:
        reason = "the Hub is switched off (HF_HUB_OFFLINE)"
    else:
        reasons = [_asked(name) for name in ids]
        if None in reasons:
            return None
        reason = str(reasons[0])
    return f"model {spec!r} is neither a folder nor in the cache, and {reason}; give a folder or packaged:NAME"


def _asked(name: str) -> str | None:
    """Ask the Hub for a model; return what is wrong, or ``None``."""
    import urllib.error
    import urllib.request

    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    url = f"{constants.ENDPOINT}/api/models/{name}"
    request = urllib.request.Request(url, headers=build_hf_headers(), method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):
            return None
    except urllib.error.HTTPError as error:
        return f"the Hub does not have it for you (HTTP {error.code})"
    except OSError as error:
        return f"the Hub cannot be reached ({error})"
