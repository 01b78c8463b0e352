"""From messages to one text, by the rules of the model's chat template, decided once when the model is loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Prompt
from utilitune.progress import say

# Templates that print a date would otherwise give another prompt every day.
FIXED: dict[str, Any] = {"enable_thinking": False, "date_string": "01 Jan 2025"}
_MARK = "a9f3c1"

Messages = list[tuple[str, str]]


class Renderer:
    """Renders prompts for one tokenizer.

    The ladder: a chat template that takes a system message is used as it is; one that raises on it or drops it gets
    the instruction merged into the first user turn, for every prompt of the model; no template means plain text.
    Neighbouring messages of one role are joined, since strict templates refuse them.

    Args:
        tokenizer: A transformers tokenizer.
        template: ``"auto"``; ``"require"`` (no template is an error); ``"plain"`` (ignore the template); or the
            path of a file with a Jinja chat template.
        model: Name of the model, for messages.

    Raises:
        ConfigError: When a template is required and there is none, or the given one does not work.
    """

    def __init__(self, tokenizer: Any, template: str | None = None, model: str = "the model") -> None:
        self._tokenizer = tokenizer
        self._template = self._choose(template or "auto", model)
        added = getattr(tokenizer, "added_tokens_decoder", {}).values()
        special = {str(token) for token in added if token.special} | set(tokenizer.all_special_tokens)
        # Longest first: one may be the beginning of another. Single letters are no markup.
        self._special = sorted((token for token in special if len(token) > 2), key=lambda token: (-len(token), token))
        self.system_role = "native"
        if self._template is None:
            self.template_hash = "plain"
            return
        self.template_hash = hashlib.sha256(self._template.encode()).hexdigest()
        if not self._takes_system():
            self.system_role = "merged"
            say(f"{model}: the chat template takes no system message; it is merged into the first user turn")
        try:
            shown = self._apply([("user", _MARK)])
        except Exception as error:
            raise ConfigError(f"the chat template of {model} cannot render a user message: {error}") from error
        if _MARK not in shown:
            raise ConfigError(f"the chat template of {model} drops the user message; give template=FILE")

    @property
    def is_chat(self) -> bool:
        """Whether a chat template is used."""
        return self._template is not None

    def _choose(self, template: str, model: str) -> str | None:
        own = self._tokenizer.chat_template
        if isinstance(own, dict):
            own = own.get("default")
        if template == "plain":
            return None
        if template not in ("auto", "require"):
            path = Path(template)
            if not path.is_file():
                raise ConfigError(f"chat template {template!r} is no file; use a path, 'auto', 'require' or 'plain'")
            return path.read_text(encoding="utf-8")
        if own is None and template == "require":
            raise ConfigError(f"{model} has no chat template and template='require'; give template=FILE")
        if own is None:
            say(f"{model} has no chat template: prompts are plain text")
        return None if own is None else str(own)

    def _takes_system(self) -> bool:
        try:
            return _MARK in self._apply([("system", _MARK), ("user", "x")])
        except Exception:  # a template raises whatever it likes
            return False

    def _apply(self, messages: Messages) -> str:
        conversation = [{"role": role, "content": content} for role, content in messages]
        text: str = self._tokenizer.apply_chat_template(
            conversation, chat_template=self._template, tokenize=False, add_generation_prompt=True, **FIXED
        )
        return text

    def render(self, prompt: Prompt) -> tuple[str, bool]:
        """Render a prompt.

        Args:
            prompt: The prompt; without messages it is plain text whatever the model.

        Returns:
            The text, and whether the chat template made it.

        Raises:
            ValueError: When the messages do not end with a user turn.
        """
        if self._template is None or not prompt.messages:
            text = prompt.plain or "\n\n".join(content for _, content in prompt.messages)
            return (self.disarm(text) if prompt.messages else text), False
        return self._apply(self.conversation(prompt.messages)), True

    def conversation(self, messages: Sequence[tuple[str, str]]) -> Messages:
        """Return chat messages as the chat template gets them: disarmed, alternating, the last one the user's.

        Args:
            messages: ``(role, content)`` in order.

        Returns:
            ``(role, content)`` in order.

        Raises:
            ValueError: When the messages do not end with a user turn.
        """
        return self._arrange(tuple((role, self.disarm(content)) for role, content in messages))

    def is_armed(self, prompt: Prompt) -> bool:
        """Tell whether a rendered prompt holds text that looks like a special token of this model."""
        texts = (prompt.plain, *(content for _, content in prompt.messages))
        return bool(prompt.messages) and any(token in text for token in self._special for text in texts)

    def disarm(self, content: str) -> str:
        """Split what looks like a special token, so that no passage can end a turn or begin another."""
        for token in self._special:
            content = content.replace(token, f"{token[0]} {token[1:]}")
        return content

    def _arrange(self, messages: tuple[tuple[str, str], ...]) -> Messages:
        return arrange(messages, merged=self.system_role == "merged")


def arrange(messages: Sequence[tuple[str, str]], *, merged: bool) -> Messages:
    """Make messages alternate: an optional system message, then user and assistant in turn, user last.

    Args:
        messages: ``(role, content)`` in order.
        merged: Whether the system message goes into the first user turn.

    Returns:
        ``(role, content)`` in order.

    Raises:
        ValueError: When the messages do not end with a user turn.
    """
    system = "\n\n".join(content for role, content in messages if role == "system")
    turns: Messages = []
    for role, content in messages:
        if role == "system":
            continue
        if turns and turns[-1][0] == role:
            turns[-1] = (role, f"{turns[-1][1]}\n\n{content}")
        else:
            turns.append((role, content))
    if not turns or turns[-1][0] != "user":
        raise ValueError("a chat prompt must end with a user message")
    if turns[0][0] == "assistant":
        turns[:2] = [("user", f"{turns[0][1]}\n\n{turns[1][1]}")]
    if not system:
        return turns
    if merged:
        return [("user", f"{system}\n\n{turns[0][1]}"), *turns[1:]]
    return [("system", system), *turns]
