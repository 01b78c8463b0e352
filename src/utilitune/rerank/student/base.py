"""The encoder that a training starts from: opened, its window and its prompts."""

from __future__ import annotations

from typing import Any

from utilitune.errors import ConfigError
from utilitune.rerank.groups import Groups
from utilitune.rerank.student.config import RetrieverConfig


def open_student(encoder: str, config: RetrieverConfig) -> Any:
    """Open an encoder as the start of a training, its window limited, the seed set.

    Args:
        encoder: ``packaged:NAME``, folder or Hub id.
        config: Settings.

    Returns:
        The ``SentenceTransformer``.

    Raises:
        ConfigError: If the encoder cannot be opened, or nothing says how long a text may be.
    """
    from transformers import set_seed

    from utilitune.retrieval.encoder import load_model

    set_seed(config.seed)
    model = load_model(encoder, config.device)
    limits = [limit for limit in (config.max_length, model.max_seq_length) if limit]
    if not limits:
        raise ConfigError(f"encoder {encoder!r} does not say how long a text may be; set max_length")
    model.max_seq_length = min(limits)
    return model


def prompts_of(model: Any) -> dict[str, str]:
    """Return what is put before queries and passages, by the rule of ``encode_query`` and ``encode_document``."""
    prompts = model.prompts or {}
    passage = next((name for name in ("document", "passage", "corpus") if name in prompts), "")
    return {"query": prompts.get("query") or "", "passage": prompts.get(passage) or ""}


def cut_counts(model: Any, groups: Groups) -> dict[str, int]:
    """Count distinct texts that do not fit the window.

    Args:
        model: The ``SentenceTransformer``.
        groups: Training groups.

    Returns:
        ``queries_cut`` and ``passages_cut``.
    """
    prompts = prompts_of(model)
    texts = {
        "queries_cut": {prompts["query"] + group.query for group in groups},
        "passages_cut": {prompts["passage"] + passage for group in groups for passage in group.passages},
    }
    counts = {}
    for kind, distinct in texts.items():
        rows = model.tokenizer(sorted(distinct), truncation=False, padding=False, verbose=False)["input_ids"]
        counts[kind] = sum(len(row) > model.max_seq_length for row in rows)
    return counts
