"""What the trainer will see of a pair: token ids after the chat template, cut to ``max_length``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from utilitune.errors import ConfigError
from utilitune.records.pair import Message, PreferencePair


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


def load_tokenizer(spec: str) -> ChatTokenizer:
    """Load the tokenizer of a model, without its weights.

    Args:
        spec: ``packaged:NAME``, Hub id or folder.

    Returns:
        The tokenizer, with a chat template.

    Raises:
        ConfigError: When it has no chat template: preference rows are conversations.
    """
    from transformers import AutoTokenizer

    from utilitune.generator import resolve_model

    source = resolve_model(spec)
    tokenizer: ChatTokenizer = AutoTokenizer.from_pretrained(source, local_files_only=Path(source).is_dir())
    if not tokenizer.chat_template:
        raise ConfigError(
            f"{spec} has no chat template, and preference pairs are conversations; "
            "take a chat-tuned base for the rewriter, such as packaged:smollm2-135m-instruct"
        )
    return tokenizer


def takes_system(tokenizer: ChatTokenizer) -> bool:
    """Tell whether the generator will send a system message to this chat template, or merge it."""
    from utilitune.generator.rendering import Renderer

    return Renderer(tokenizer).system_role == "native"


def template_options() -> dict[str, Any]:
    """Return what the generator passes to every chat template, so that training sees the prompts of inference."""
    from utilitune.generator.rendering import FIXED

    return dict(FIXED)


def fit_roles(messages: Sequence[Message], system: bool) -> list[dict[str, str]]:
    """Return the messages; with ``system=False`` a leading system message moves into the first user turn."""
    plain = [dict(message) for message in messages]
    if system or len(plain) < 2 or plain[0]["role"] != "system":
        return plain
    return [{**plain[1], "content": f"{plain[0]['content']}\n\n{plain[1]['content']}"}, *plain[2:]]


def tokenize_pair(pair: PreferencePair, tokenizer: ChatTokenizer, *, system: bool = True) -> PairTokens:
    """Tokenise a pair as TRL does: the completions start where prompt and prompt + completion diverge.

    Args:
        pair: The pair.
        tokenizer: Tokenizer with a chat template.
        system: Whether the template takes a system message (``takes_system``).

    Returns:
        Its token ids, uncut.
    """
    prompt = fit_roles(pair.prompt, system)
    asked = _ids(tokenizer, prompt, add_generation_prompt=True)
    chosen = _ids(tokenizer, prompt + [dict(message) for message in pair.chosen])
    rejected = _ids(tokenizer, prompt + [dict(message) for message in pair.rejected])
    start = min(_shared(asked, chosen), _shared(asked, rejected))
    return PairTokens(asked[:start], chosen[start:], rejected[start:], asked[start:])


def _ids(
    tokenizer: ChatTokenizer, conversation: list[dict[str, str]], add_generation_prompt: bool = False
) -> tuple[int, ...]:
    made = tokenizer.apply_chat_template(
        conversation,
        tokenize=True,
        return_dict=True,
        add_generation_prompt=add_generation_prompt,
        **template_options(),
    )
    ids = made["input_ids"] if isinstance(made, Mapping) or hasattr(made, "keys") else made
    return tuple(int(token) for token in ids)


def _shared(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """Return the length of the common prefix."""
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
