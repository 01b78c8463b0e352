"""From a (query, passage) pair to the tokens that a decoder reads, the same in training and in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError, DataError
from utilitune.progress import warn
from utilitune.records import Passage

# Texts can take more tokens inside the prompt than alone, where they meet its words.
SEAMS = 8
_SHOWN = ("what", "this")


class DecoderPrompt:
    """One prompt for one tokenizer.

    Args:
        tokenizer: A fast tokenizer; its chat template is used where it has one.
        path: YAML file of the prompt.
        window: Tokens that the model can read.
        model: Name of the model, for messages.

    Attributes:
        path: YAML file of the prompt.
        window: Tokens that the model can read.
        room: Tokens that are left for query and passage together.

    Raises:
        ConfigError: If the prompt leaves no room.
    """

    path: Path
    window: int
    room: int

    def __init__(self, tokenizer: Any, path: Path, window: int, model: str = "the model") -> None:
        from utilitune.generator import load_prompt
        from utilitune.generator.rendering import Renderer

        self.path = path
        self.window = window
        self._tokenizer = tokenizer
        self._template = load_prompt(path)
        self._renderer = Renderer(tokenizer, model=model)
        # Not by the tokenizer's own rule, which may put an end token after the prompt's last word.
        first = tokenizer("a", verbose=False)["input_ids"][:1]
        self._lead = first if first and first[0] == tokenizer.bos_token_id else []
        self.room = window - len(self._tokens(self._text("", ""))) - SEAMS
        if self.room < SEAMS:
            raise ConfigError(
                f"the prompt {path.name} takes {window - self.room} of the model's {window} tokens; give a shorter one"
            )

    @property
    def hash(self) -> str:
        """SHA-256 of the prompt."""
        return self._template.hash

    @property
    def chat_template_hash(self) -> str:
        """SHA-256 of the chat template, or ``plain``."""
        return self._renderer.template_hash

    def tokens(self, query: str, passage: str) -> list[int]:
        """Return the token ids of a pair's prompt.

        Args:
            query: The question; never cut here.
            passage: The passage's text, cut from its end should the prompt be longer than the window.

        Returns:
            Ids, the last one right before the answer.

        Raises:
            DataError: If the query alone does not fit.
        """
        found = self._tokens(self._text(query, passage))
        if len(found) <= self.window:
            return found
        warn(f"a prompt of {len(found)} tokens is longer than the model's {self.window}; its passage is cut further")
        while len(found) > self.window:
            if not passage:
                raise DataError(f"the question {query[:60]!r} does not fit into {self.window} tokens with its prompt")
            passage = passage[: len(passage) * self.window // len(found) - 1] if len(passage) > 1 else ""
            found = self._tokens(self._text(query, passage))
        return found

    def answer(self, word: str) -> int:
        """Return the token that an answer begins with.

        Args:
            word: The answer.

        Returns:
            Its first token's id, as it comes after the prompt.

        Raises:
            ConfigError: If the tokenizer joins the word to the prompt.
        """
        prompt = self._text(*_SHOWN)
        # After a chat template comes the word itself, after plain text a space.
        joined = prompt + (word if self._renderer.is_chat else f" {word}")
        before, after = self._tokens(prompt), self._tokens(joined)
        if after[: len(before)] != before or len(after) == len(before):
            raise ConfigError(
                f"the tokenizer joins {word!r} to the end of the prompt {self.path.name}; end it otherwise"
            )
        return after[len(before)]

    def _text(self, query: str, passage: str) -> str:
        prompt = self._template.render(question=query, passages=(Passage("", passage),))
        return self._renderer.render(prompt)[0]

    def _tokens(self, text: str) -> list[int]:
        lead = [] if self._renderer.is_chat else self._lead
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return [*lead, *ids]
