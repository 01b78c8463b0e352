"""What can run a saved reranker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError


def open_backend(folder: str, backend: str = "torch", device: str = "auto") -> Any:
    """Open a saved reranker.

    Args:
        folder: A folder; for ``torch`` also ``packaged:NAME`` or a Hub id.
        backend: ``torch``, ``onnx`` (fp32) or ``onnx-int8``; the last two need what ``export_reranker`` wrote.
        device: ``auto`` or a torch device; the ONNX backends know the processor alone.

    Returns:
        The model: a ``CrossEncoder``, or an ``OnnxCrossEncoder``.

    Raises:
        ConfigError: For an unknown backend or a device that it does not have, or if the extra ``onnx`` is missing.
        DataError: If the folder holds no such reranker.
    """
    if backend not in BACKENDS:
        raise ConfigError(f"backend: found {backend!r}, expected one of: {', '.join(BACKENDS)}")
    return BACKENDS[backend](folder, device)


def _torch(folder: str, device: str) -> Any:
    from utilitune.rerank.cross_encoder import open_cross_encoder

    return open_cross_encoder(folder, device=device)


def _onnx(precision: str) -> Callable[[str, str], Any]:
    def opened(folder: str, device: str) -> Any:
        from utilitune.rerank.onnx_cross_encoder import OnnxCrossEncoder

        if device not in ("auto", "cpu"):
            raise ConfigError(f"the ONNX backends run on the processor, found device {device!r}; use backend='torch'")
        return OnnxCrossEncoder.open(Path(folder), precision)

    return opened


BACKENDS: dict[str, Callable[[str, str], Any]] = {"torch": _torch, "onnx": _onnx("fp32"), "onnx-int8": _onnx("int8")}
