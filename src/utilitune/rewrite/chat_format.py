"""How a base's chat template renders a row for training: the very text that the generator will send it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from utilitune.errors import DataError
from utilitune.generator.protocol import Prompt
from utilitune.generator.rendering import FIXED, Renderer
from utilitune.records.pair import Message, PreferencePair
from utilitune.rewrite.tokens import ChatTokenizer, PairTokens, shared_length


@dataclass(frozen=True)
class ChatFormat:
    """A tokenizer with the generator's rules for its chat template.

    Attributes:
        tokenizer: Tokenizer of the base.
        renderer: The generator's renderer for it: system message merged where the template takes none, neighbouring
            turns joined, text that looks like a special token split.
    """

    tokenizer: ChatTokenizer
    renderer: Renderer

    @classmethod
    def of(cls, tokenizer: ChatTokenizer) -> ChatFormat:
        """Look at the tokenizer's chat template once."""
        return cls(tokenizer, Renderer(tokenizer))

    def prompt(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        """Return the messages of a prompt as the chat template gets them.

        Args:
            messages: Messages of a pair.

        Returns:
            Messages in TRL's conversational form.

        Raises:
            DataError: When they do not end with the user's turn.
        """
        try:
            fitted = self.renderer.conversation([(one["role"], one["content"]) for one in messages])
        except (ValueError, KeyError) as error:
            raise DataError(f"not a prompt: {list(messages)!r} ({error}); write the pairs again") from error
        return [{"role": role, "content": content} for role, content in fitted]

    def answer(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        """Return an answer's messages, disarmed as the prompt's are."""
        return [{"role": one["role"], "content": self.renderer.disarm(one["content"])} for one in messages]

    def is_armed(self, pair: PreferencePair) -> bool:
        """Tell whether the pair holds text that looks like a special token of the base."""
        messages = (*pair.prompt, *pair.chosen, *pair.rejected)
        return self.renderer.is_armed(Prompt(messages=tuple((one["role"], one["content"]) for one in messages)))

    def row(self, pair: PreferencePair) -> dict[str, Any]:
        """Return the pair as TRL's preference trainer takes it."""
        return {
            "prompt": self.prompt(pair.prompt),
            "chosen": self.answer(pair.chosen),
            "rejected": self.answer(pair.rejected),
            "chat_template_kwargs": dict(FIXED),
        }

    def pair_tokens(self, pair: PreferencePair) -> PairTokens:
        """Tokenise a pair as TRL does: the completions start where prompt and prompt + completion diverge.

        Args:
            pair: The pair.

        Returns:
            Its token ids, uncut.
        """
        prompt = self.prompt(pair.prompt)
        asked = self.ids(prompt, add_generation_prompt=True)
        chosen = self.ids(prompt + self.answer(pair.chosen))
        rejected = self.ids(prompt + self.answer(pair.rejected))
        start = min(shared_length(asked, chosen), shared_length(asked, rejected))
        return PairTokens(asked[:start], chosen[start:], rejected[start:], asked[start:])

    def asked_and_answered(self, prompt: Sequence[Message], answer: Sequence[Message]) -> tuple[list[int], list[int]]:
        """Return the token ids that the generator sends for a prompt, and those that it should answer with."""
        conversation = self.prompt(prompt)
        asked = self.ids(conversation, add_generation_prompt=True)
        whole = self.ids(conversation + self.answer(answer))
        return list(asked), list(whole[shared_length(asked, whole) :])

    def ids(self, conversation: list[dict[str, str]], *, add_generation_prompt: bool = False) -> tuple[int, ...]:
        """Render and tokenise a conversation."""
        made = self.tokenizer.apply_chat_template(
            conversation, tokenize=True, return_dict=True, add_generation_prompt=add_generation_prompt, **FIXED
        )
        ids = made["input_ids"] if isinstance(made, Mapping) or hasattr(made, "keys") else made
        return tuple(int(token) for token in ids)
