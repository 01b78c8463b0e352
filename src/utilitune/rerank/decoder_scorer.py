"""A causal language model that scores pairs, as the one module of a ``CrossEncoder``. Importing this loads torch."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers.base.modules import InputModule
from torch import Tensor, nn

from utilitune.rerank.decoder_prompt import DecoderPrompt


class YesNoHead(nn.Module):
    """``logit(yes) - logit(no)`` at the last position: the log-odds of the two words."""

    name = "yes-no"

    def __init__(self, yes: int, no: int) -> None:
        """Keep the two words' token ids."""
        super().__init__()
        self.yes, self.no = yes, no

    def forward(self, output: Any) -> Tensor:
        """Return scores, shape ``(pairs, 1)``, fp32, of a causal model's output."""
        last: Tensor = output.logits[:, -1].float()
        return (last[:, self.yes] - last[:, self.no]).unsqueeze(1)


class LinearHead(nn.Module):
    """A linear layer on the hidden state of the last position."""

    name = "classification"

    def __init__(self, width: int) -> None:
        """Draw new weights for hidden states of ``width`` numbers."""
        super().__init__()
        self.score = nn.Linear(width, 1, bias=False)
        # Hidden states of decoders are large in places; a usual start would make scores of several hundred.
        nn.init.normal_(self.score.weight, std=0.02 / width**0.5)

    def forward(self, output: Any) -> Tensor:
        """Return scores, shape ``(pairs, 1)``, fp32, of a headless model's output."""
        scores: Tensor = self.score(output.last_hidden_state[:, -1].float())
        return scores


class DecoderScorer(InputModule):  # type: ignore[misc]
    """Reads the score of a pair off the end of its prompt.

    A batch is padded on the left, so that every row ends with the prompt's last token, whatever the tokenizer's own
    padding; positions are counted from the mask, so that padding moves nothing.

    Args:
        body: The model: causal for ``YesNoHead``, headless for ``LinearHead``; bare or with a PEFT adapter.
        tokenizer: Its tokenizer.
        prompt: What it reads.
        head: What turns its output into a score.
        max_length: Tokens of query and passage together, an upper limit on top of what the prompt leaves.
    """

    def __init__(
        self,
        body: Any,
        tokenizer: Any,
        prompt: DecoderPrompt,
        head: YesNoHead | LinearHead,
        max_length: int | None = None,
    ) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.tokenizer = tokenizer
        self.prompt = prompt
        self.max_seq_length = min(prompt.room, max_length or prompt.room)
        bare = body.get_base_model() if hasattr(body, "get_base_model") else body
        accepted = inspect.signature(bare.forward).parameters
        self._positions = "position_ids" in accepted
        self._keeps = "logits_to_keep" in accepted

    def preprocess(
        self, inputs: Sequence[tuple[str, str]], prompt: str | None = None, **options: Any
    ) -> dict[str, Tensor]:
        """Tokenize pairs.

        Args:
            inputs: (query, passage), within ``max_seq_length`` tokens together.
            prompt: Not used: a pair's prompt is the scorer's own.
            **options: Not used.

        Returns:
            ``input_ids`` and ``attention_mask``, both of shape ``(pairs, tokens)``, padded on the left.
        """
        del prompt, options
        rows = [self.prompt.tokens(query, passage) for query, passage in inputs]
        longest = max(map(len, rows))
        return {
            "input_ids": torch.tensor([[0] * (longest - len(row)) + row for row in rows]),
            "attention_mask": torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows]),
        }

    def forward(self, features: dict[str, Tensor], **options: Any) -> dict[str, Tensor]:
        """Add ``scores``, shape ``(pairs, 1)``, to the features."""
        del options
        mask = features["attention_mask"]
        extra: dict[str, Any] = {}
        if self._positions:
            extra["position_ids"] = (mask.cumsum(dim=1) - 1).clamp(min=0)
        if self._keeps:
            extra["logits_to_keep"] = 1
        output = self.body(input_ids=features["input_ids"], attention_mask=mask, use_cache=False, **extra)
        return {**features, "scores": self.head(output)}

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **options: Any) -> None:
        """Refuse: a decoder reranker is saved whole, by ``DecoderCrossEncoder.save_pretrained``."""
        raise NotImplementedError("save the reranker, not its module")
