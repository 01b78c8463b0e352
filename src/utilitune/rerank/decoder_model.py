"""Makes, opens and saves decoder rerankers. Importing this loads torch and sentence-transformers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder

from utilitune.errors import ConfigError, DataError
from utilitune.rerank.cross_encoder import quiet_loading, usable_positions
from utilitune.rerank.decoder_config import PROMPT, DecoderConfig
from utilitune.rerank.decoder_folder import (
    HEAD_FILE,
    PROMPT_FILE,
    DecoderCard,
    is_decoder,
    portable,
    resolved,
)
from utilitune.rerank.decoder_prompt import DecoderPrompt
from utilitune.rerank.decoder_scorer import DecoderScorer, LinearHead, YesNoHead

_UNSET = 10**9  # tokenizers without a limit carry a number like 1e30
ADAPTER_FILE = "adapter_model.safetensors"


class DecoderCrossEncoder(CrossEncoder):  # type: ignore[misc]
    """A ``CrossEncoder`` around a ``DecoderScorer``; what it saves is an adapter, not a model.

    Attributes:
        base: The base as the user gave it.
        revision: Commit of a base on the Hub, ``""`` for files.
        readme: Text for the folder.
    """

    base: str
    revision: str
    readme: str

    def __init__(self, scorer: DecoderScorer, base: str, revision: str, device: str) -> None:
        """Wrap a scorer of ``base`` at ``revision``; ``device`` is ``auto`` or a torch device."""
        super().__init__(
            modules=[scorer],
            activation_fn=torch.nn.Identity(),
            device=None if device == "auto" else device,
            local_files_only=True,
        )
        self.base = base
        self.revision = revision
        self.readme = _README

    def save_pretrained(
        self,
        path: str,
        model_name: str | None = None,
        create_model_card: bool = True,
        train_datasets: list[str] | None = None,
        safe_serialization: bool = True,
    ) -> None:
        """Write adapter, head, tokenizer, prompt and ``reranker.json``.

        Args:
            path: Folder, made if need be.
            model_name: Not used.
            create_model_card: Not used.
            train_datasets: Not used.
            safe_serialization: Not used; it is always safetensors.
        """
        del model_name, create_model_card, train_datasets, safe_serialization
        folder, scorer = Path(path), self[0]
        folder.mkdir(parents=True, exist_ok=True)
        base, is_folder = portable(self.base, folder)
        for settings in scorer.body.peft_config.values():
            settings.base_model_name_or_path = base
            settings.revision = self.revision or None
        scorer.body.save_pretrained(str(folder), save_embedding_layers=False, selected_adapters=["default"])
        # PEFT's model card is a form with nothing filled in.
        (folder / "README.md").unlink(missing_ok=True)
        if isinstance(scorer.head, LinearHead):
            save_file(scorer.head.state_dict(), str(folder / HEAD_FILE))
        scorer.tokenizer.save_pretrained(str(folder))
        if scorer.prompt.path != folder / PROMPT_FILE:
            shutil.copyfile(scorer.prompt.path, folder / PROMPT_FILE)
        DecoderCard(
            base=base,
            base_is_folder=is_folder,
            base_hash=resolved(self.base)[1],
            base_revision=self.revision,
            head=scorer.head.name,
            yes=getattr(scorer.head, "yes", None),
            no=getattr(scorer.head, "no", None),
            prompt_hash=scorer.prompt.hash,
            chat_template_hash=scorer.prompt.chat_template_hash,
            max_length=scorer.max_seq_length,
        ).write(folder)


def new_decoder(
    base: str,
    decoder: DecoderConfig | None = None,
    *,
    seed: int,
    max_length: int | None = None,
    device: str = "auto",
) -> DecoderCrossEncoder:
    """Put a fresh LoRA adapter and a head on a causal language model; a trained decoder reranker keeps its own.

    Args:
        base: ``packaged:NAME``, local folder, Hub id, or the folder of a decoder reranker.
        decoder: How it scores.
        seed: Of adapter and head.
        max_length: Tokens of query and passage together, an upper limit on top of what prompt and model allow.
        device: ``auto`` or a torch device.

    Returns:
        The model in fp32, its adapter and head trainable.

    Raises:
        ConfigError: If settings are wrong, or the base cannot be read as a causal language model.
    """
    from peft import LoraConfig, get_peft_model
    from transformers import set_seed

    decoder = decoder or DecoderConfig()
    decoder.check()
    if is_decoder(base):
        return _go_on(Path(base), decoder, max_length, device)
    source, _ = resolved(base)
    # Before anything is built: adapter and head are drawn from this generator.
    set_seed(seed)
    body, tokenizer, revision = _load(source, base, decoder.head)
    prompt = DecoderPrompt(tokenizer, Path(decoder.prompt or PROMPT), _window(body, tokenizer, base), base)
    head = _new_head(decoder, prompt, body)
    targets = decoder.lora_targets
    adapter = LoraConfig(
        r=decoder.lora_r,
        lora_alpha=decoder.lora_alpha,
        lora_dropout=decoder.lora_dropout,
        target_modules=targets if isinstance(targets, str) else list(targets),
    )
    scorer = DecoderScorer(get_peft_model(body, adapter), tokenizer, prompt, head, max_length)
    return DecoderCrossEncoder(scorer, base, revision, device)


def open_decoder(folder: Path, *, device: str = "auto", trainable: bool = False) -> DecoderCrossEncoder:
    """Open a saved decoder reranker.

    Args:
        folder: Its folder.
        device: ``auto`` or a torch device.
        trainable: Keep the adapter apart, to go on training; otherwise it is added into the weights, which is faster
            and the same but for rounding.

    Returns:
        The model in fp32.

    Raises:
        DataError: If the folder is damaged.
        ConfigError: If the base is missing, or another one than it was trained on.
    """
    from peft import PeftModel

    card = DecoderCard.read(folder)
    missing = [name for name in (ADAPTER_FILE, PROMPT_FILE) if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{folder} is no whole decoder reranker: {', '.join(missing)} is missing; copy it again")
    source = card.locate(folder)
    body, tokenizer, revision = _load(source, card.base, card.head, folder, card.base_revision)
    prompt = DecoderPrompt(tokenizer, folder / PROMPT_FILE, _window(body, tokenizer, card.base), card.base)
    if (prompt.hash, prompt.chat_template_hash) != (card.prompt_hash, card.chat_template_hash):
        raise DataError(f"{folder}: prompt or chat template changed since the training; copy the folder again")
    head: YesNoHead | LinearHead
    if card.yes is not None and card.no is not None:
        head = YesNoHead(card.yes, card.no)
    else:
        head = LinearHead(body.config.hidden_size)
        head.load_state_dict(load_file(str(folder / HEAD_FILE)))
    adapted = PeftModel.from_pretrained(body, str(folder), is_trainable=trainable)
    if not trainable:
        adapted.merge_adapter()
    base = str(folder / card.base) if card.base_is_folder else card.base
    return DecoderCrossEncoder(DecoderScorer(adapted, tokenizer, prompt, head, card.max_length), base, revision, device)


def _go_on(folder: Path, decoder: DecoderConfig, max_length: int | None, device: str) -> DecoderCrossEncoder:
    model = open_decoder(folder, device=device, trainable=True)
    if model[0].head.name != decoder.head:
        raise ConfigError(f"the reranker in {folder} has the head {model[0].head.name!r}, found {decoder.head!r}")
    model[0].max_seq_length = min(model[0].max_seq_length, max_length or model[0].max_seq_length)
    return model


def _load(
    source: str, base: str, head: str, tokenizer_from: Path | None = None, revision: str = ""
) -> tuple[Any, Any, str]:
    """Return model, tokenizer and, of a base on the Hub, the commit that they are at."""
    from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

    from utilitune.generator.hub_commit import hub_commit

    local = Path(source).is_dir()
    kind = AutoModelForCausalLM if head == YesNoHead.name else AutoModel
    try:
        commit = "" if local else hub_commit(source, revision or None)
        options: dict[str, Any] = {"local_files_only": True} if local else {"revision": commit}
        with quiet_loading():
            body = kind.from_pretrained(source, dtype=torch.float32, use_safetensors=True, **options)
            at = {"local_files_only": True} if tokenizer_from else options
            tokenizer = AutoTokenizer.from_pretrained(str(tokenizer_from or source), **at)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{base!r} cannot be opened as a causal language model: {error}") from error
    return body, tokenizer, commit


def _window(body: Any, tokenizer: Any, base: str) -> int:
    limits = [usable_positions(body), int(min(tokenizer.model_max_length, _UNSET))]
    known = [limit for limit in limits if limit is not None and 0 < limit < _UNSET]
    if not known:
        raise ConfigError(f"neither tokenizer nor config of {base!r} says how long a text may be")
    return min(known)


def _new_head(decoder: DecoderConfig, prompt: DecoderPrompt, body: Any) -> YesNoHead | LinearHead:
    if decoder.head == LinearHead.name:
        return LinearHead(body.config.hidden_size)
    yes, no = prompt.answer(decoder.yes), prompt.answer(decoder.no)
    if yes == no:
        raise ConfigError(f"{decoder.yes!r} and {decoder.no!r} begin with the same token; choose other words")
    return YesNoHead(yes, no)


_README = """---
library_name: peft
pipeline_tag: text-ranking
tags: [reranker, lora, utilitune]
---
A decoder reranker: a LoRA adapter that reads off a language model whether a passage helps. `training.json` says how it
was trained, `prompt.yaml` what the model reads, `reranker.json` which model it is put on.

    from utilitune.rerank import UtilityReranker
    UtilityReranker.load("this folder").score("question", ["passage", "another"])

Scores are logits, comparable within a question.
"""
