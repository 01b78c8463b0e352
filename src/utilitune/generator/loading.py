"""From a name to a generator: packaged models, Hub ids, folders, adapters."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from utilitune.errors import ConfigError
from utilitune.generator.packaged import PREFIX, resolve_model
from utilitune.progress import say

if TYPE_CHECKING:
    from utilitune.generator.protocol import Generator

BACKENDS = ("transformers", "openai")


@dataclass(frozen=True)
class GeneratorSpec:
    """Everything that names a generator.

    Attributes:
        model: ``packaged:NAME``, Hub id, model folder or adapter folder.
        backend: ``"transformers"``; for ``"openai"`` see ``ServerSpec`` in ``openai_loading``.
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
        spec: ``packaged:NAME``, a Hub id, a model folder, an adapter folder (its base model is read from it), a
            mapping with the keys of ``GeneratorSpec``, which win over the arguments below, a mapping with ``"backend":
            "openai"`` and the keys of ``ServerSpec`` (they alone count then), or a ``.yaml`` file with such a mapping.
        dtype: ``"auto"`` measures float32 against bfloat16 once and says why; or a type's name.
        device: ``"auto"`` or a torch device.
        adapter: PEFT adapter to put on the model.
        template: ``"auto"``, ``"require"``, ``"plain"`` or a file with a chat template.
        batch_tokens: Tokens in a batch, padding included. In float32 it never changes a number by more than 1e-4; in
            half precision rounding depends on what else is in the batch.

    Returns:
        The generator.

    Raises:
        ConfigError: When the spec, the model or the adapter is not usable; the message says what to do.
    """
    if not isinstance(spec, Mapping) and Path(spec).suffix in (".yaml", ".yml"):
        spec = _mapping_in(Path(spec))
    if isinstance(spec, Mapping) and spec.get("backend") == "openai":
        from utilitune.generator.openai_loading import load_openai

        return load_openai(spec)
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


def _mapping_in(path: Path) -> Mapping[str, Any]:
    """Read a generator spec from a YAML file."""
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read the generator file {path}: {error}") from error
    if not isinstance(read, Mapping):
        raise ConfigError(f"generator file {path} must be a mapping with the key 'model'")
    return read


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
    from utilitune.generator.hub_commit import hub_commit
    from utilitune.generator.rendering import Renderer
    from utilitune.generator.transformers_generator import TransformersGenerator
    from utilitune.generator.unread_model import UnreadModel
    from utilitune.generator.weights_hash import model_hash

    source, local = _locate(spec.model)
    with _explained(spec.model):
        # One commit for all files, wherever its branch is when the weights are read.
        commit = None if local else hub_commit(source, spec.revision)
        hub: dict[str, Any] = {"local_files_only": local, "revision": commit}
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
    adapter = None if spec.adapter is None else _adapter_folder(spec.adapter)

    def hashes() -> tuple[str, str]:
        return commit or model_hash(Path(source)), "" if adapter is None else model_hash(adapter)

    revision, adapter_hash = hashed = hashes()

    def read() -> Any:
        model = _read_weights(spec.model, source, {**hub, "dtype": DTYPES[dtype]}, device, adapter)
        # Looked at when the weights are in, so that what changed while they were read is found out as well.
        if hashes() != hashed:
            raise ConfigError(f"{spec.model}: its files changed after this process had hashed them; start it again")
        return model

    return TransformersGenerator(
        UnreadModel(config, DTYPES[dtype], read),
        tokenizer,
        name=spec.model,
        revision=revision,
        renderer=renderer,
        adapter="" if adapter is None else f"{spec.adapter}@{adapter_hash}",
        batch_tokens=spec.batch_tokens,
        overflow=spec.overflow,
    )


def _read_weights(model: str, source: str, settings: Mapping[str, Any], device: str, adapter: Path | None) -> Any:
    """Read the model's weights and put the adapter on."""
    from transformers import AutoModelForCausalLM

    with _explained(model), _no_bars():
        read = AutoModelForCausalLM.from_pretrained(source, use_safetensors=True, **settings).to(device)
    return read if adapter is None else _put_on(read, adapter)


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


def _adapter_folder(adapter: str) -> Path:
    """Return the folder of an adapter.

    Args:
        adapter: Folder or Hub id; what is on the Hub is fetched, so that what is hashed is what is put on.

    Returns:
        The folder.

    Raises:
        ConfigError: If there is no such adapter, or it is not in safetensors.
    """
    folder = Path(adapter).expanduser()
    if not folder.is_dir():
        if adapter.startswith(("/", ".", "~")):
            raise ConfigError(f"adapter folder {adapter!r} does not exist")
        from huggingface_hub import snapshot_download

        try:
            folder = Path(snapshot_download(adapter, allow_patterns=["adapter_config.json", "*.safetensors"]))
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"cannot load adapter {adapter!r}: {str(error).splitlines()[0]}; give its folder, or a Hub id that can "
                "be reached"
            ) from error
    if not (folder / "adapter_model.safetensors").is_file():
        raise ConfigError(f"adapter {adapter!r} has no adapter_model.safetensors; save the adapter as safetensors")
    return folder


def _put_on(model: Any, adapter: Path) -> Any:
    """Put an adapter on a model, in place, and return the model."""
    from peft import PeftModel

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            wrapped = PeftModel.from_pretrained(model, str(adapter))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load adapter {str(adapter)!r}: {str(error).splitlines()[0]}") from error
    if wrapped.active_peft_config.is_prompt_learning:
        raise ConfigError(
            f"adapter {str(adapter)!r} learns prompt vectors; only adapters inside the layers (LoRA) are supported"
        )
    # Merging rounds once and saves a third of the time of every pass.
    with warnings.catch_warnings():
        # transformers' own rename of an attribute that peft still reads.
        warnings.simplefilter("ignore", FutureWarning)
        return wrapped.merge_and_unload(safe_merge=True)
