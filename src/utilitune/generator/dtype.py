"""The arithmetic type: measured on this machine, never assumed."""

from __future__ import annotations

import json
import os
import platform
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch

from utilitune.errors import ConfigError
from utilitune.generator.packaged import cache_folder

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Half precision costs digits of every number, so it must be clearly quicker to be worth it.
_WORTH = 1.5
_TOKENS = 128


def choose_dtype(asked: str, device: str, hidden: int, intermediate: int) -> tuple[str, str]:
    """Choose the arithmetic type.

    Args:
        asked: A type's name, or ``"auto"``: time float32 and bfloat16 matrix products at the model's shapes once on
            this device and keep float32 unless bfloat16 is at least 1.5 times as quick.
        device: Torch device.
        hidden: Width of the model.
        intermediate: Width of its feed-forward layers.

    Returns:
        The type's name and the reason.

    Raises:
        ConfigError: For an unknown type.
    """
    if asked != "auto":
        if asked not in DTYPES:
            raise ConfigError(f"unknown dtype {asked!r}; known: {['auto', *DTYPES]}")
        return asked, "as asked"
    return _verdict(device, hidden, intermediate)


@cache
def _verdict(device: str, hidden: int, intermediate: int) -> tuple[str, str]:
    """Measure, or read what an earlier process measured: a verdict that changed between runs would change numbers."""
    key = f"{_device_name(device)} torch {torch.__version__} {hidden}x{intermediate}"
    path = cache_folder() / "dtype.json"
    known = _read(path)
    if key in known:
        return known[key][0], known[key][1]
    full = _seconds(torch.float32, device, hidden, intermediate)
    half = _seconds(torch.bfloat16, device, hidden, intermediate)
    name = "bfloat16" if half * _WORTH < full else "float32"
    ratio = f"{half / full:.1f} times slower" if half > full else f"{full / half:.1f} times quicker"
    reason = f"bfloat16 measured {ratio} than float32 on this {torch.device(device).type}"
    known[key] = [name, reason]
    _write(path, known)
    return name, reason


def _seconds(dtype: torch.dtype, device: str, hidden: int, intermediate: int) -> float:
    """Return the best of three times of one matrix product."""
    left = torch.ones(_TOKENS, hidden, dtype=dtype, device=device)
    right = torch.ones(hidden, intermediate, dtype=dtype, device=device)
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        (left @ right)[0, 0].item()
        best = min(best, time.perf_counter() - start)
    return best


def _device_name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.node()} {platform.machine()} {os.cpu_count()} cpus {torch.get_num_threads()} threads"


def _read(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(path: Path, known: dict[str, Any]) -> None:
    """Keep the verdicts; a cache that cannot be written only costs a second measurement."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_text(json.dumps(known, indent=1), encoding="utf-8")
        part.replace(path)
    except OSError:
        return
