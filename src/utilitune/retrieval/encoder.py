"""The text encoder behind dense retrieval: loaded safely, its identity known, every cut text counted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from utilitune.errors import DataError
from utilitune.progress import progress, say
from utilitune.retrieval.encoder_folder import encoder_folder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

READY_MADE = "object"
_CHUNK = 512


@dataclass(frozen=True)
class EncoderIdentity:
    """Everything about an encoder that can change a vector.

    Attributes:
        spec: The encoder as it was asked for; a name for people, not compared.
        weights: SHA-256 of all parameters and buffers by name.
        dimension: Length of a vector.
        normalised: Whether vectors have length 1 (always, here).
        max_length: Window in tokens; 0 when the model states none.
        modules: Module class and settings in order, pooling among them.
        prompts: Texts put before queries and passages, by name.
    """

    spec: str
    weights: str
    dimension: int
    normalised: bool
    max_length: int
    modules: tuple[Mapping[str, Any], ...] = field(hash=False)
    prompts: Mapping[str, str] = field(hash=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values."""
        return {**asdict(self), "modules": [dict(module) for module in self.modules]}

    def differences(self, stated: Mapping[str, Any]) -> list[str]:
        """Return what differs from a stored identity, one phrase a field; empty when vectors are comparable."""
        return [
            f"{name} {_short(stated.get(name))} / {_short(value)}"
            for name, value in self.as_dict().items()
            if name != "spec" and stated.get(name) != value
        ]


class Encoder:
    """A sentence-transformers model that gives float32 vectors of length 1.

    Args:
        encoder: ``packaged:`` name, Hub id, folder, or a ready ``SentenceTransformer``.
        device: ``"auto"`` or a torch device name.
        batch_size: Texts a forward pass, >= 1.

    Attributes:
        counts: Texts encoded and texts longer than the window (their end is not read), queries and passages apart.
        identity: What made the vectors.

    Raises:
        ConfigError: When the encoder cannot be found, or has no safetensors weights.
    """

    counts: dict[str, int]
    identity: EncoderIdentity

    def __init__(
        self, encoder: str | Path | SentenceTransformer, *, device: str = "auto", batch_size: int = 32
    ) -> None:
        if isinstance(encoder, str | Path):
            self._model, spec = load_model(str(encoder), device), str(encoder)
        else:
            self._model, spec = encoder, READY_MADE
        self._model.eval()
        self._batch_size = batch_size
        self.counts = {}
        self.identity = _identify(self._model, spec)

    def passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of passages, shape ``(n, dimension)``; equal texts get the same vector."""
        return self._encode(texts, "passages", self._model.encode_document)

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of queries, shape ``(n, dimension)``; equal texts get the same vector."""
        return self._encode(texts, "queries", self._model.encode_query)

    def _encode(self, texts: Sequence[str], what: str, encode: Any) -> NDArray[np.float32]:
        # A lone surrogate, which broken JSON escapes make, is not UTF-8 and no tokenizer takes it.
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        vectors = np.empty((len(distinct), self.identity.dimension), dtype=np.float32)
        with progress(f"encode {what}", len(distinct), what) as bar:
            for start in range(0, len(distinct), _CHUNK):
                part = distinct[start : start + _CHUNK]
                vectors[start : start + len(part)] = encode(
                    part,
                    batch_size=self._batch_size,
                    show_progress_bar=False,
                    convert_to_numpy=True,
                    normalize_embeddings=True,
                )
                bar.advance(len(part))
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(bad):
            raise DataError(
                f"encoder {self.identity.spec!r} gave vectors that are not finite for {len(bad)} of {len(distinct)} "
                f"texts, such as {distinct[bad[0]][:60]!r}; use fp32 weights"
            )
        self._count(texts, what)
        row = {text: position for position, text in enumerate(distinct)}
        return vectors[[row[text] for text in texts]]

    def _count(self, texts: Sequence[str], what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + len(texts)
        cut = self._cut(texts)
        if cut is None:
            return
        self.counts[f"{what}_cut"] = self.counts.get(f"{what}_cut", 0) + cut
        if cut:
            say(
                f"encoder: {cut} of {len(texts)} {what} ({cut / len(texts):.1%}) are longer than its window of "
                f"{self.identity.max_length} tokens; their ends are not read"
            )

    def _cut(self, texts: Sequence[str]) -> int | None:
        """Return how many texts do not fit the window; ``None`` when the model cannot tell."""
        tokenizer, window = getattr(self._model, "tokenizer", None), self.identity.max_length
        if not window or not callable(tokenizer):
            return None
        # A token is at least one byte, so a short text fits without being counted; 8 is for special tokens.
        long = [text for text in texts if len(text.encode()) + 8 > window]
        cut = 0
        for start in range(0, len(long), _CHUNK):
            rows = tokenizer(long[start : start + _CHUNK], truncation=False, padding=False, verbose=False)
            cut += sum(len(row) > window for row in rows["input_ids"])
        return cut


def load_model(spec: str, device: str = "auto") -> SentenceTransformer:
    """Open an encoder safely: float32, safetensors alone, no code, and a local folder never asks a network.

    Args:
        spec: ``packaged:`` name, Hub id or folder.
        device: ``"auto"`` or a torch device name.

    Returns:
        The model, as sentence-transformers has it.

    Raises:
        ConfigError: When the encoder cannot be found, or has no safetensors weights.
    """
    folder = encoder_folder(spec)
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    # The library's bar for reading weights would ignore --quiet.
    barred = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model = SentenceTransformer(
            str(folder),
            device=None if device == "auto" else device,
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"use_safetensors": True, "dtype": torch.float32},
        )
    finally:
        if barred:
            logging.enable_progress_bar()
    reason = "as asked" if device != "auto" else "the fastest that torch finds"
    say(f"encoder {spec}: on {model.device} ({reason}), float32")
    return model


def _identify(model: SentenceTransformer, spec: str) -> EncoderIdentity:
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        # reshape first: a scalar has no bytes view
        digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    modules = tuple({"name": type(module).__name__, **_settings(module)} for module in model.children())
    return EncoderIdentity(
        spec=spec,
        weights=digest.hexdigest(),
        dimension=int(np.shape(model.encode("dimension", show_progress_bar=False))[-1]),
        normalised=True,
        max_length=int(getattr(model, "max_seq_length", None) or 0),
        modules=modules,
        prompts={str(name): str(text) for name, text in (model.prompts or {}).items()},
    )


def _settings(module: Any) -> dict[str, Any]:
    read = getattr(module, "get_config_dict", None)
    stated = read() if callable(read) else {}
    return {str(name): value for name, value in stated.items() if isinstance(value, str | int | float | bool)}


def _short(value: Any) -> str:
    text = value[:12] if isinstance(value, str) and len(value) == 64 else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
