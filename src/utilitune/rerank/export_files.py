"""Where an exported reranker keeps its graphs, whose weights they are of, and what must be installed for them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError, DataError
from utilitune.records import file_hash, read_json

GRAPHS = {"fp32": "onnx/model.onnx", "int8": "onnx/model_int8.onnx"}
"""File of each precision: the layout that sentence-transformers' ONNX backend reads."""

REPORT = "onnx/export.json"
AGAIN = "export it with `utilitune train export-reranker`"
RUNNING = ("onnxruntime",)
EXPORTING = ("onnx", "onnxscript", "onnxruntime")


def check_installed(modules: tuple[str, ...]) -> None:
    """Refuse to go on without the packages of the extra ``onnx``.

    Args:
        modules: What is needed.

    Raises:
        ConfigError: Naming what is missing and the extra.
    """
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise ConfigError(f"ONNX needs {', '.join(missing)}, which is not installed: pip install 'utilitune[onnx]'")


def weights_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each weight file of a model folder, by name; empty where only graphs were deployed."""
    return {path.name: file_hash(path) for path in sorted(folder.glob("*.safetensors"))}


def read_export(folder: Path, precision: str) -> Mapping[str, Any]:
    """Read what was written down about a folder's graphs.

    Args:
        folder: Folder of a reranker.
        precision: ``fp32`` or ``int8``.

    Returns:
        The content of ``onnx/export.json``.

    Raises:
        DataError: If there is no such graph, or it is of other weights than the folder's.
    """
    if not (folder / REPORT).is_file() or not (folder / GRAPHS[precision]).is_file():
        raise DataError(f"{folder} holds no {precision} ONNX graph ({GRAPHS[precision]} and {REPORT}); {AGAIN}")
    report: Mapping[str, Any] = read_json(folder / REPORT)
    found = weights_of(folder)
    if found and found != report["weights"]:
        raise DataError(f"{folder}: its ONNX graphs are of other weights than its safetensors; {AGAIN}")
    return report
