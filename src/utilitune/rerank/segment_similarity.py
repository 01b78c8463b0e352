"""A head that ranks before any label: cosine of the two texts' mean states in the joint pass. Importing loads torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError
from sentence_transformers.base.modules import Module
from torch import Tensor, nn

from utilitune.errors import ConfigError, DataError

START_SCALE = 20.0
"""Scale before training."""
START_CENTRE = 0.7
"""Cosine that gives the logit 0 before training: about the mean of first-stage candidates with MiniLM-L6."""


class SegmentSimilarity(Module):  # type: ignore[misc]
    """Scores a pair by ``scale · cos(mean of the query's states, mean of the passage's states) + bias``.

    The states are those of one pass over both texts, so that each attends to the other; special tokens and padding are
    left out of the means. Encoders of single texts are pooled so (Sentence-BERT, arXiv 1908.10084). All weights but
    ``scale`` and ``bias`` are the encoder's: nothing here is noise before training.

    | features read | shape |
    |---|---|
    | ``token_embeddings`` | (pairs, tokens, width) |
    | ``attention_mask``, ``input_ids``, with ``token_types`` also ``token_type_ids`` | (pairs, tokens) |

    Adds ``scores``, shape (pairs, 1), fp32. A text without a token has the cosine 0 with any other.
    """

    config_keys: ClassVar[list[str]] = ["special_ids", "separator_id", "token_types"]

    def __init__(self, special_ids: Sequence[int], separator_id: int, token_types: bool) -> None:
        """Set up for one tokenizer; ``for_tokenizer`` finds out all of this.

        Args:
            special_ids: Ids of the tokens that belong to neither text.
            separator_id: Id of the token that follows the query.
            token_types: Whether ``token_type_ids`` are 1 over the passage; if not, it begins after the separator.
        """
        super().__init__()
        self.special_ids = list(special_ids)
        self.separator_id = separator_id
        self.token_types = token_types
        self.scale = nn.Parameter(torch.tensor(START_SCALE))
        self.bias = nn.Parameter(torch.tensor(-START_SCALE * START_CENTRE))

    @classmethod
    def for_tokenizer(cls, tokenizer: Any) -> SegmentSimilarity:
        """Make a head for the pairs that a tokenizer writes.

        Args:
            tokenizer: A fast tokenizer.

        Returns:
            The head, at its start.

        Raises:
            ConfigError: If nothing in a pair tells where its query ends.
        """
        encoded = tokenizer("a", "a")
        ids, sides = encoded["input_ids"], encoded.sequence_ids()
        types = encoded.get("token_type_ids") or [0] * len(ids)
        specials = {token for token, side in zip(ids, sides, strict=True) if side is None}
        begin, end = sides.index(0), len(sides) - sides[::-1].index(0)
        typed = all(kind == side for kind, side in zip(types, sides, strict=True) if side is not None)
        # A token that also stands before the query would end it before it begins.
        if not typed and (sides[end] is not None or ids[end] in ids[:begin]):
            raise ConfigError(
                "this base's tokenizer writes no separator between query and passage, and no token types; head "
                "'similarity' needs one of them: take another base, or head: classification"
            )
        return cls(sorted(specials), int(ids[end]), typed)

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Add the scores to the features, and return these."""
        ids, states = features["input_ids"], features["token_embeddings"].float()
        is_text = features["attention_mask"].bool()
        for special in self.special_ids:
            is_text = is_text & (ids != special)
        if self.token_types:
            of_passage = features["token_type_ids"] == 1
        else:
            of_passage = (ids == self.separator_id).cumsum(dim=1) > 0
        query, passage = _mean(states, is_text & ~of_passage), _mean(states, is_text & of_passage)
        cosine = nn.functional.cosine_similarity(query, passage, dim=1)
        features["scores"] = (self.scale.float() * cosine + self.bias.float()).unsqueeze(1)
        return features

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Write ``config.json`` and ``model.safetensors``.

        Args:
            output_path: A folder that is there.
            *args: Not used.
            safe_serialization: Not used; it is always safetensors.
            **kwargs: Not used.
        """
        from safetensors.torch import save_file

        del args, safe_serialization, kwargs
        self.save_config(output_path)
        save_file({name: value.detach().cpu() for name, value in self.state_dict().items()}, _weights(output_path))

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> SegmentSimilarity:
        """Read what ``save`` wrote.

        Args:
            model_name_or_path: The reranker's folder.
            subfolder: The head's own folder in it.
            **kwargs: What sentence-transformers hands to every module; not used.

        Returns:
            The head.

        Raises:
            DataError: If a file is missing or damaged.
        """
        from safetensors.torch import load_file

        del kwargs
        folder = Path(model_name_or_path) / subfolder
        try:
            head = cls(**json.loads((folder / "config.json").read_text(encoding="utf-8")))
            head.load_state_dict(load_file(_weights(folder)))
        except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
            raise DataError(f"the similarity head in {folder} is damaged ({error}); copy the folder again") from error
        return head


def _weights(folder: Path | str) -> str:
    return str(Path(folder) / "model.safetensors")


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean state over a mask, shape (pairs, width); zeros where the mask is empty."""
    weights = mask.unsqueeze(2).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)
