"""What the trainer will see of a pair: token ids after the chat template, cut to ``max_length``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from utilitune.errors import ConfigError
from utilitune.rewrite.base_spec import BaseSpec, Spec


class ChatTokenizer(Protocol):
    """The part of a transformers tokenizer that is needed here."""

    chat_template: Any

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> Any:
        """Render and tokenise a conversation."""
        ...


@dataclass(frozen=True)
class PairTokens:
    """Token ids of a pair.

    Attributes:
        prompt: Ids that both sides begin with, up to where the completions start.
        chosen: Ids of the chosen completion.
        rejected: Ids of the rejected completion.
        lost: Ids at the end of the prompt that the template renders otherwise once an answer follows; the model is
            asked with them and trained without.
    """

    prompt: tuple[int, ...]
    chosen: tuple[int, ...]
    rejected: tuple[int, ...]
    lost: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        """Length of the longer side, prompt included."""
        return len(self.prompt) + max(len(self.chosen), len(self.rejected))

    def same_within(self, max_length: int) -> bool:
        """Tell whether both sides are equal once cut to ``max_length`` tokens (the gradient would be 0)."""
        return (self.prompt + self.chosen)[:max_length] == (self.prompt + self.rejected)[:max_length]


def load_tokenizer(spec: Spec) -> ChatTokenizer:
    """Load the tokenizer of a model, without its weights.

    Args:
        spec: ``packaged:NAME``, Hub id or folder, or a mapping with ``model`` and ``revision``.

    Returns:
        The tokenizer, with a chat template.

    Raises:
        ConfigError: When it has no chat template: preference rows are conversations.
    """
    from transformers import AutoTokenizer

    base = BaseSpec.of(spec)
    source, options = base.locate()
    tokenizer: ChatTokenizer = AutoTokenizer.from_pretrained(source, **options)
    if not tokenizer.chat_template:
        raise ConfigError(
            f"{base.model} has no chat template, and preference pairs are conversations; "
            "take a chat-tuned base for the rewriter, such as packaged:smollm2-135m-instruct"
        )
    return tokenizer


def shared_length(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """Return the length of the common prefix."""
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
