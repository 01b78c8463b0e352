"""From a name to a generator: packaged models, Hub ids, folders, adapters."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from utilitune.errors import ConfigError
from utilitune.generator.packaged import PREFIX, resolve_model
from utilitune.progress import say

if TYPE_CHECKING:
    from utilitune.generator.protocol import Generator

BACKENDS = ("transformers",)


@dataclass(frozen=True)
class GeneratorSpec:
    """Everything that names a generator.

    Attributes:
        model: ``packaged:NAME``, Hub id, model folder or adapter folder.
        backend: ``"transformers"``.
        revision: Hub revision.
        dtype: ``"auto"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        device: ``"auto"`` (CUDA when there is one) or a torch device.
        adapter: PEFT adapter, folder or Hub id.
        template: ``"auto"``, ``"require"``, ``"plain"`` or a file with a chat template.
        batch_tokens: Tokens in a batch, padding included.
        overflow: ``"truncate"`` or ``"error"``.
    """

    model: str
    backend: str = "transformers"
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    adapter: str | None = None
    template: str | None = None
    batch_tokens: int = 8192
    overflow: str = "truncate"


def load_generator(
    spec: str | Path | Mapping[str, Any],
    *,
    dtype: str = "auto",
    device: str = "auto",
    adapter: str | Path | None = None,
    template: str | Path | None = None,
    batch_tokens: int = 8192,
) -> Generator:
    """Load a generator. Local paths and fetched packaged models never touch the network.

    Args:
        spec: ``packaged:NAME``, a Hub id, a model folder, an adapter folder (its base model is read from it), or a
            mapping with the keys of ``GeneratorSpec``, which win over the arguments below.
        dtype: ``"auto"`` measures float32 against bfloat16 once and says why; or a type's name.
        device: ``"auto"`` or a torch device.
        adapter: PEFT adapter to put on the model.
        template: ``"auto"``, ``"require"``, ``"plain"`` or a file with a chat template.
        batch_tokens: Tokens in a batch, padding included; never changes a number beyond rounding.

    Returns:
        The generator.

    Raises:
        ConfigError: When the spec, the model or the adapter is not usable; the message says what to do.
    """
    given: dict[str, Any] = {
        "dtype": dtype,
        "device": device,
        "adapter": None if adapter is None else str(adapter),
        "template": None if template is None else str(template),
        "batch_tokens": batch_tokens,
    }
    given.update(spec if isinstance(spec, Mapping) else {"model": str(spec)})
    known = [field.name for field in fields(GeneratorSpec)]
    unknown = sorted(set(given) - set(known))
    if unknown or "model" not in given:
        problem = f"unknown keys {unknown}" if unknown else "no key 'model'"
        raise ConfigError(f"generator spec has {problem}; known: {known}")
    wanted = GeneratorSpec(**given)
    if wanted.backend not in BACKENDS:
        raise ConfigError(f"unknown generator backend {wanted.backend!r}; known: {list(BACKENDS)}")
    return _load_transformers(_with_base(wanted))


def _with_base(spec: GeneratorSpec) -> GeneratorSpec:
    """Turn an adapter folder into its base model plus the adapter."""
    folder = Path(spec.model).expanduser()
    if not (folder / "adapter_config.json").is_file() or (folder / "config.json").is_file():
        return spec
    if spec.adapter is not None:
        raise ConfigError(f"{spec.model} is an adapter already; give its base model with adapter={spec.adapter!r}")
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    base = config.get("base_model_name_or_path")
    if not base:
        raise ConfigError(f"{folder} names no base model; give {{'model': BASE, 'adapter': {str(folder)!r}}}")
    return GeneratorSpec(**{**spec.__dict__, "model": base, "adapter": str(folder)})


def _load_transformers(spec: GeneratorSpec) -> Generator:
    """Load tokenizer, template, dtype, identity, in the order in which mistakes are cheapest; weights at first use."""
    from transformers import AutoConfig, AutoTokenizer

    from utilitune.generator.dtype import DTYPES, choose_dtype
    from utilitune.generator.rendering import Renderer
    from utilitune.generator.transformers_generator import TransformersGenerator
    from utilitune.generator.unread_model import UnreadModel

    source, local = _locate(spec.model)
    hub: dict[str, Any] = {"local_files_only": local, "revision": None if local else spec.revision}
    with _explained(spec.model):
        if local and not any(Path(source).glob("*.safetensors")):
            raise OSError("no file named *.safetensors in the folder")
        config = AutoConfig.from_pretrained(source, **hub)
        tokenizer = AutoTokenizer.from_pretrained(source, **hub)
        renderer = Renderer(tokenizer, spec.template, spec.model)
        device = _device(spec.device)
        text = config.get_text_config()
        hidden = int(text.hidden_size)
        dtype, reason = choose_dtype(
            spec.dtype, device, hidden, int(getattr(text, "intermediate_size", None) or 4 * hidden)
        )
    say(f"{spec.model}: {dtype} on {device} ({reason})")
    adapter = "" if spec.adapter is None else f"{spec.adapter}@{_adapter_revision(spec.adapter)}"
    revision = _revision(source, local, config)

    def read() -> Any:
        if local and _revision(source, local, config) != revision:
            raise ConfigError(f"{spec.model}: its files changed after this process had hashed them; start it again")
        return _read_weights(spec, source, {**hub, "dtype": DTYPES[dtype]}, device)

    return TransformersGenerator(
        UnreadModel(config, DTYPES[dtype], read),
        tokenizer,
        name=spec.model,
        revision=revision,
        renderer=renderer,
        adapter=adapter,
        batch_tokens=spec.batch_tokens,
        overflow=spec.overflow,
    )


def _read_weights(spec: GeneratorSpec, source: str, settings: Mapping[str, Any], device: str) -> Any:
    """Read the model's weights and put the adapter on."""
    from transformers import AutoModelForCausalLM

    with _explained(spec.model), _no_bars():
        model = AutoModelForCausalLM.from_pretrained(source, use_safetensors=True, **settings).to(device)
    return model if spec.adapter is None else _put_on(model, spec.adapter)


@contextmanager
def _explained(model: str) -> Iterator[None]:
    """Turn transformers' errors about files into ours."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        raise ConfigError(
            f"cannot load {model!r}: {str(error).splitlines()[0]}; give a folder with config.json, tokenizer and "
            f"*.safetensors, a Hub id that can be reached, or a packaged model ({PREFIX}smollm2-135m-instruct)"
        ) from error


@contextmanager
def _no_bars() -> Iterator[None]:
    """Keep transformers' own bars away while a model of a few seconds loads."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _locate(model: str) -> tuple[str, bool]:
    """Return what transformers should load, and whether it is local."""
    resolved = resolve_model(model)
    path = Path(resolved).expanduser()
    if path.is_dir():
        return str(path), True
    if str(model).startswith(("/", ".", "~")):
        raise ConfigError(f"model folder {model!r} does not exist")
    return str(resolved), False


def _device(asked: str) -> str:
    import torch

    if asked != "auto":
        return asked
    return "cuda" if torch.cuda.is_available() else "cpu"


def _revision(source: str, local: bool, config: Any) -> str:
    from utilitune.generator.weights_hash import model_hash

    if local:
        return model_hash(Path(source))
    return str(getattr(config, "_commit_hash", None) or "")


def _adapter_revision(adapter: str) -> str:
    """Return what an adapter is known by: the hash of its folder, or its Hub revision.

    Args:
        adapter: Folder or Hub id.

    Returns:
        Hash or revision; empty when the Hub gives none.

    Raises:
        ConfigError: If the folder is not there, or holds no adapter in safetensors.
    """
    from utilitune.generator.weights_hash import model_hash

    folder = Path(adapter).expanduser()
    if folder.is_dir():
        if not (folder / "adapter_model.safetensors").is_file():
            raise ConfigError(
                f"adapter folder {adapter!r} has no adapter_model.safetensors; save the adapter as safetensors"
            )
        return model_hash(folder)
    if adapter.startswith(("/", ".", "~")):
        raise ConfigError(f"adapter folder {adapter!r} does not exist")
    from peft import PeftConfig

    with _explained(adapter):
        return str(getattr(PeftConfig.from_pretrained(adapter), "revision", None) or "")


def _put_on(model: Any, adapter: str) -> Any:
    """Put an adapter on a model, in place, and return the model."""
    from peft import PeftModel

    folder = Path(adapter).expanduser()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            wrapped = PeftModel.from_pretrained(model, str(folder) if folder.is_dir() else adapter)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load adapter {adapter!r}: {str(error).splitlines()[0]}") from error
    if wrapped.active_peft_config.is_prompt_learning:
        raise ConfigError(
            f"adapter {adapter!r} learns prompt vectors; only adapters inside the layers (LoRA) are supported"
        )
    # Merging rounds once and saves a third of the time of every pass.
    with warnings.catch_warnings():
        # transformers' own rename of an attribute that peft still reads.
        warnings.simplefilter("ignore", FutureWarning)
        return wrapped.merge_and_unload(safe_merge=True)
