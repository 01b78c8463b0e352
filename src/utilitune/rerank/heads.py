"""What makes one score of an encoder's states, by name; the modules around the similarity head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError

HEADS: dict[str, str] = {"classification": "sequence-classification", "similarity": "feature-extraction"}
"""What transformers loads of the base, by head: ``classification`` is a new layer, noise before training;
``similarity`` is ``SegmentSimilarity``, which ranks before training."""

README = """---
library_name: utilitune
pipeline_tag: text-ranking
tags: [cross-encoder, reranker, utilitune]
---
A reranker trained on what passages are worth to a language model. `training.json` says how. Its score is the cosine of
the two texts' mean states in one pass over both, times a learnt scale, plus a learnt bias.

    from utilitune.rerank import UtilityReranker
    UtilityReranker.load("this folder").score("question", ["passage", "another"])

sentence-transformers' own `CrossEncoder` opens it with `trust_remote_code=True` where utilitune is installed: the head
is a module of that package. Scores are logits (identity activation).
"""
"""Of the folder."""

_FOLDER = "1_SegmentSimilarity"
_TYPE = "utilitune.rerank.segment_similarity.SegmentSimilarity"


def is_similarity(folder: Path | str) -> bool:
    """Tell whether a folder holds a reranker with the similarity head."""
    listed = Path(folder) / "modules.json"
    return listed.is_file() and any(
        module.get("type") == _TYPE for module in json.loads(listed.read_text(encoding="utf-8"))
    )


def similarity_modules(body: Any) -> list[Any]:
    """Put a new similarity head behind an encoder.

    Args:
        body: sentence-transformers' ``Transformer``, loaded for feature extraction.

    Returns:
        Encoder and head.

    Raises:
        ConfigError: If the base is no encoder, or its tokenizer does not tell query from passage.
    """
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    from utilitune.rerank.segment_similarity import SegmentSimilarity

    settings = body.model.config
    # A causal model's query never sees its passage: there is no joint pass to pool.
    if getattr(settings, "is_encoder_decoder", False) or type(settings) not in MODEL_FOR_MASKED_LM_MAPPING:
        raise ConfigError(
            f"head 'similarity' needs an encoder, found {type(body.model).__name__}; take an encoder as base, or head: "
            "classification"
        )
    body.unpad_inputs = False  # the head pools rows
    return [body, SegmentSimilarity.for_tokenizer(body.tokenizer)]


def open_similarity(folder: Path | str) -> list[Any]:
    """Open the modules of a saved reranker with the similarity head, in fp32.

    sentence-transformers imports modules of other packages only with ``trust_remote_code``, which this library never
    sets.

    Args:
        folder: The reranker's folder.

    Returns:
        Encoder and head.
    """
    import torch
    from sentence_transformers.base.modules import Transformer

    from utilitune.rerank.segment_similarity import SegmentSimilarity

    weights = {"dtype": torch.float32, "use_safetensors": True}
    body = Transformer.load(str(folder), local_files_only=True, model_kwargs=weights)
    body.unpad_inputs = False
    return [body, SegmentSimilarity.load(str(folder), _FOLDER)]
