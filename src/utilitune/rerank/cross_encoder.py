"""Makes and opens the model: a ``CrossEncoder`` with one output, in fp32, safe lengths, a pad token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError, DataError
from utilitune.rerank.decoder_folder import is_decoder
from utilitune.rerank.heads import HEADS, README, is_similarity, open_similarity, similarity_modules

_PAD = "<|pad|>"
_UNSET = 10**9  # tokenizers without a limit carry a number like 1e30


def new_cross_encoder(
    base: str, *, seed: int, max_length: int | None = None, device: str = "auto", head: str = "classification"
) -> Any:
    """Put a one-output head on ``base`` (a trained reranker of the same head keeps its own).

    The seed is set before anything is built, so that the same seed gives the same head.

    Args:
        base: ``packaged:NAME``, a local folder, or a Hub id; encoder or decoder.
        seed: Of the new head.
        max_length: Upper limit of tokens a pair; never raises what tokenizer and positions allow.
        device: ``auto`` or a torch device.
        head: A name in ``HEADS``.

    Returns:
        A ``CrossEncoder`` whose activation is the identity: it gives logits.

    Raises:
        ConfigError: If the base cannot be read as a classifier, is a reranker of another head, or does not suit the
            head.
    """
    import torch
    from sentence_transformers.base.modules import Transformer
    from transformers import set_seed

    if head not in HEADS:
        raise ConfigError(f"head {head!r} is unknown; known: {', '.join(HEADS)}")
    folder = _resolved(base)
    if is_similarity(folder):
        return _go_on(folder, head, max_length, device)
    # Before anything is built: the new head is drawn from this generator.
    set_seed(seed)
    local = Path(folder).is_dir()
    options = {"local_files_only": True} if local else {}
    try:
        # Not CrossEncoder(folder): that would make yes/no scorers of decoders and keep pooling layers of
        # encoders.
        with quiet_loading():
            body = Transformer(
                _transformer_folder(folder),
                transformer_task=HEADS[head],
                model_kwargs={"dtype": torch.float32, "use_safetensors": True, **options},
                config_kwargs={"num_labels": 1, **options},
                processor_kwargs=options,
            )
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{base!r} cannot be opened for {HEADS[head]}: {error}") from error
    # padding_side: absolute positions count from the left, so padding there would shift them.
    body.tokenizer.padding_side = "right"
    ensure_pad(body.model, body.tokenizer)
    return _assembled(similarity_modules(body) if head == "similarity" else [body], max_length, device)


def _assembled(modules: list[Any], max_length: int | None, device: str) -> Any:
    import torch
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(modules=modules, activation_fn=torch.nn.Identity(), device=_device(device))
    if len(modules) > 1:
        model.readme = README
    limit_length(model, max_length)
    return model


def _go_on(folder: str, head: str, max_length: int | None, device: str) -> Any:
    """Return a trained similarity reranker to train on."""
    if head != "similarity":
        raise ConfigError(f"{folder} is a reranker with the head similarity, found head {head!r}; set head: similarity")
    return _opened_similarity(folder, max_length, device)


def _opened_similarity(folder: str, max_length: int | None, device: str) -> Any:
    with quiet_loading():
        modules = open_similarity(folder)
    modules[0].tokenizer.padding_side = "right"
    return _assembled(modules, max_length, device)


def open_cross_encoder(folder: str, *, device: str = "auto") -> Any:
    """Open a saved reranker in fp32.

    Args:
        folder: A folder, ``packaged:NAME`` or Hub id that ``CrossEncoder`` can open, or a decoder reranker's folder.
        device: ``auto`` or a torch device.

    Returns:
        The ``CrossEncoder``.

    Raises:
        DataError: If there is no such folder, it holds another kind of model, or the model has more than one output.
    """
    import torch
    from sentence_transformers import CrossEncoder

    path = _resolved(folder)
    if is_decoder(path):
        from utilitune.rerank.decoder_model import open_decoder

        return open_decoder(Path(path), device=device)
    local = Path(path).is_dir()
    looks_local = path.startswith((".", "/", "~")) or path.count("/") > 1
    if (looks_local and not local) or (local and not any(Path(path).rglob("config.json"))):
        raise DataError(f"no reranker in {folder!r} (no config.json); train one with `utilitune train reranker`")
    if local:
        _check_trained(Path(path), folder)
    try:
        if is_similarity(path):
            return _opened_similarity(path, None, device)
        with quiet_loading():
            model = CrossEncoder(
                path,
                local_files_only=local,
                device=_device(device),
                model_kwargs={"dtype": torch.float32, "use_safetensors": True},
            )
    except OSError as error:
        raise DataError(f"no reranker in {folder!r}, neither as a folder nor on the Hub: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{folder!r} is no trained reranker, sentence-transformers cannot open it as one ({error}); give a folder "
            "that `utilitune train reranker` wrote"
        ) from error
    if model.num_labels != 1:
        raise DataError(f"the model in {folder!r} has {model.num_labels} outputs; a reranker has 1")
    if model.transformers_model is not None:
        model.tokenizer.padding_side = "right"
        ensure_pad(model.transformers_model, model.tokenizer)
    limit_length(model, None)
    return model


def _check_trained(path: Path, folder: str) -> None:
    """Refuse an encoder or language model: ``CrossEncoder`` would open it, with a head of noise or of two words."""
    import json

    config, sentences = path / "config.json", path / "config_sentence_transformers.json"
    if not config.is_file():
        return
    kinds = [str(kind) for kind in json.loads(config.read_text(encoding="utf-8")).get("architectures") or ()]
    classifies = any(kind.endswith("ForSequenceClassification") for kind in kinds)
    said = json.loads(sentences.read_text(encoding="utf-8")).get("model_type") if sentences.is_file() else None
    if not classifies and said != "CrossEncoder":
        raise DataError(
            f"{folder!r} is no trained reranker: its config.json says {', '.join(kinds) or 'no architecture'}, "
            "expected one for sequence classification; give a folder that `utilitune train reranker` wrote"
        )


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Keep transformers' loading bars and its notice of a new head, which is what we want, off the screen."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def ensure_pad(model: Any, tokenizer: Any) -> None:
    """Give tokenizer, config and generation config the same pad id.

    Decoders pool the last token that is not the pad. A pad that also occurs in texts (the usual ``pad =
    eos``) makes them pool the wrong one, so a tokenizer without a pad gets a token of its own.

    Args:
        model: A transformers model; its embedding grows by the new token.
        tokenizer: Its tokenizer.
    """
    if tokenizer.pad_token_id is None:
        tokenizer.add_special_tokens({"pad_token": _PAD})
    if model.get_input_embeddings().num_embeddings < len(tokenizer):
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.config.pad_token_id = tokenizer.pad_token_id
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.pad_token_id = tokenizer.pad_token_id


def limit_length(model: Any, max_length: int | None) -> int:
    """Set the model's limit of tokens a pair to what tokenizer, positions and the caller all allow.

    Args:
        model: A ``CrossEncoder``.
        max_length: The caller's upper limit.

    Returns:
        The limit.

    Raises:
        ConfigError: If nothing sets a limit.
    """
    limits = [max_length, model.max_seq_length, model.tokenizer.model_max_length]
    if model.transformers_model is not None:
        limits.append(usable_positions(model.transformers_model))
    known = [int(limit) for limit in limits if limit is not None and 0 < limit < _UNSET]
    if not known:
        raise ConfigError("neither tokenizer nor model says how long a pair may be; set max_length")
    model.max_seq_length = min(known)
    model.tokenizer.model_max_length = min(known)
    return min(known)


def usable_positions(model: Any) -> int | None:
    """Return how many tokens the position table can number, ``None`` when positions are not learnt.

    RoBERTa-like models count from ``padding_idx + 1``: 514 declared positions hold 512 tokens.
    """
    from torch import nn

    declared = getattr(model.config, "max_position_embeddings", None)
    offset = 0
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            declared = min(declared or module.num_embeddings, module.num_embeddings)
            offset = 0 if module.padding_idx is None else module.padding_idx + 1
    return None if declared is None else int(declared) - offset


def _device(device: str) -> str | None:
    return None if device == "auto" else device


def _resolved(spec: str) -> str:
    from utilitune.generator import resolve_model

    return str(resolve_model(spec))


def _transformer_folder(folder: str) -> str:
    """Return the folder of the transformer: older sentence-transformers folders keep it in a sub-folder."""
    if not Path(folder).is_dir() or (Path(folder) / "config.json").exists():
        return folder
    return next((str(path.parent) for path in sorted(Path(folder).glob("*/config.json")) if _is_model(path)), folder)


def _is_model(config: Path) -> bool:
    import json

    return "model_type" in json.loads(config.read_text(encoding="utf-8"))
