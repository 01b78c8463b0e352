"""Hashes of model folders, quick the second time."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from utilitune.generator.packaged import cache_folder

# Weights, configs, and everything that a tokenizer may consist of (vocab.json, merges.txt, added tokens, templates).
_SUFFIXES = (".safetensors", ".json", ".txt", ".model", ".jinja")


def model_hash(folder: Path) -> str:
    """Hash everything in a model folder that can change a number: weights, configs, tokenizer.

    File digests are kept in the cache under path, size and modification time, so that only new files are read.

    Args:
        folder: A model or adapter folder.

    Returns:
        SHA-256 hex digest.
    """
    known_at = cache_folder() / "file-hashes.json"
    try:
        known = json.loads(known_at.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    known = known if isinstance(known, dict) else {}
    whole = hashlib.sha256()
    new: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix not in _SUFFIXES:
            continue
        stat = path.stat()
        key = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"
        if key not in known:
            with path.open("rb") as file:
                new[key] = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{path.name} {known.get(key) or new[key]}\n".encode())
    if new:
        _keep(known_at, {**known, **new})
    return whole.hexdigest()


def _keep(path: Path, known: dict[str, str]) -> None:
    """Write the digests; a cache that cannot be written only costs reading the files again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_text(json.dumps(known, indent=1), encoding="utf-8")
        part.replace(path)
    except OSError:
        return
