"""Where an encoder's files are, and that they are safe to load: safetensors alone, no code."""

from __future__ import annotations

import json
from pathlib import Path

from utilitune.errors import ConfigError

# Of a Hub repository everything is fetched but other frameworks' weights and pickled ones.
_NOT_FETCHED = [
    "*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt", "*.h5", "*.msgpack", "*.ot", "*.gguf", "*.onnx", "onnx/*",
    "openvino/*", "*.py",
]  # fmt: skip
_PICKLED = ("pytorch_model.bin", "model.bin", "pytorch_model.pt")


def encoder_folder(spec: str) -> Path:
    """Return the local folder of an encoder, fetching it when it has a Hub id.

    Args:
        spec: ``packaged:`` name, folder, or Hub id; an existing folder never touches the network.

    Returns:
        A folder that sentence-transformers can load.

    Raises:
        ConfigError: When nothing is found under ``spec``, or weights are not in safetensors files.
    """
    from utilitune.generator import resolve_model

    found = Path(resolve_model(spec))
    folder = found if found.is_dir() else _fetch(spec)
    _check(folder, spec)
    return folder


def _fetch(spec: str) -> Path:
    if spec.startswith((".", "/", "~")) or spec.count("/") > 1 or "\\" in spec:
        raise ConfigError(f"encoder folder {spec!r} does not exist; give a folder, a Hub id, or packaged:NAME")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(spec, ignore_patterns=_NOT_FETCHED))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ConfigError(
            f"encoder {spec!r} is neither a folder nor reachable on the model hub ({type(error).__name__}); "
            "download it elsewhere and give its folder, or use packaged:all-minilm-l6-v2"
        ) from error


def _check(folder: Path, spec: str) -> None:
    """Refuse a folder in which any module has weights, but not as safetensors."""
    for inner in [folder, *(folder / path for path in _module_paths(folder))]:
        pickled = [name for name in _PICKLED if (inner / name).is_file()]
        if pickled and not any(inner.glob("*.safetensors")):
            raise ConfigError(
                f"encoder {spec!r}: {inner / pickled[0]} holds pickled weights, which can run code; "
                "save the model again with safetensors"
            )
    inside = [path for path in folder.rglob("*.safetensors")]
    if not inside:
        raise ConfigError(f"encoder {spec!r}: no *.safetensors file under {folder}; save the model with safetensors")


def _module_paths(folder: Path) -> list[str]:
    listing = folder / "modules.json"
    if not listing.is_file():
        return []
    try:
        return [str(module["path"]) for module in json.loads(listing.read_text(encoding="utf-8")) if module.get("path")]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{listing} is not a list of sentence-transformers modules ({error!r})") from error
