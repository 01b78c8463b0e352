"""A prompt as a server gets it: token ids where we have its tokenizer, else text or chat messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from utilitune.errors import ConfigError
from utilitune.generator.boundary import Boundary
from utilitune.generator.protocol import Prompt
from utilitune.generator.rendering import FIXED, Renderer, arrange
from utilitune.generator.window import Encoded, Window

COMPLETIONS = "/completions"
CHAT = "/chat/completions"


@dataclass(frozen=True)
class Prepared:
    """A prompt, ready to be sent.

    Attributes:
        path: ``COMPLETIONS`` or ``CHAT``.
        given: Token ids or text, empty with messages.
        moved: Trailing spaces of a plain prompt, which belong to what follows.
        truncated: Whether passages were cut.
        messages: Chat messages, for the server to render.
        variables: Whether to send the variables of our chat templates (no thinking, a fixed date) along.
    """

    path: str
    given: tuple[int, ...] | str = ""
    moved: str = ""
    truncated: bool = False
    messages: tuple[tuple[str, str], ...] = ()
    variables: bool = False

    def body(self) -> dict[str, Any]:
        """Return the part of a request's body that holds the prompt."""
        if self.messages:
            said = [{"role": role, "content": content} for role, content in self.messages]
            return {"messages": said, **({"chat_template_kwargs": FIXED} if self.variables else {})}
        return {"prompt": self.given if isinstance(self.given, str) else list(self.given)}


class Prompts(Protocol):
    """Turns prompts into what a server gets."""

    template_hash: str
    system_role: str
    limit: int

    def prepare(self, prompt: Prompt, room: int) -> Prepared:
        """Render, encode where possible, and cut passages where needed; ``room`` tokens stay free."""
        ...

    def continuation(self, given: str | tuple[int, ...], prepared: Prepared) -> tuple[int, ...] | str:
        """Return what follows the prompt, in the prompt's own form."""
        ...

    def notes(self, prompt: Prompt) -> tuple[str, ...]:
        """Return the kinds of counts that a prompt adds to."""
        ...

    def shown(self, prompt: Prompt) -> str:
        """Return what the model reads, for people."""
        ...


class TokenPrompts:
    """Prompts in token ids: template, special tokens, seam and window are ours, as with a model in this process.

    Args:
        tokenizer: The served model's transformers tokenizer.
        renderer: Renderer of its chat template.
        limit: Context window in tokens.
        vocabulary: Number of token ids.
        overflow: ``"truncate"`` or ``"error"``.
    """

    def __init__(self, tokenizer: Any, renderer: Renderer, limit: int, vocabulary: int, overflow: str) -> None:
        self.tokenizer = tokenizer
        self._renderer = renderer
        self.boundary = Boundary(tokenizer, vocabulary)
        self._window = Window(limit, self._encode, tokenizer, overflow)
        self.template_hash, self.system_role, self.limit = renderer.template_hash, renderer.system_role, limit

    def prepare(self, prompt: Prompt, room: int) -> Prepared:
        """Render, encode and fit a prompt; ``PromptTooLong`` when nothing more may be cut."""
        fitted = self._window.fit(prompt, room)
        return Prepared(COMPLETIONS, fitted.ids, fitted.moved, fitted.truncated)

    def continuation(self, given: str | tuple[int, ...], prepared: Prepared) -> tuple[int, ...]:
        """Encode what follows: alone, so that no token spans the seam."""
        return tuple(self.boundary.continuation(given, prepared.moved))

    def notes(self, prompt: Prompt) -> tuple[str, ...]:
        """Return what happened to a prompt: merged system message, no template, special tokens split."""
        system = any(role == "system" for role, _ in prompt.messages)
        happened = {
            "merged_system": self.system_role == "merged" and system,
            "plain_fallback": bool(prompt.messages) and not self._renderer.is_chat,
            "special_tokens_split": self._renderer.is_armed(prompt),
        }
        return tuple(name for name, true in happened.items() if true)

    def shown(self, prompt: Prompt) -> str:
        """Return the rendered text."""
        return self._renderer.render(prompt)[0]

    def _encode(self, prompt: Prompt) -> Encoded:
        text, chat = self._renderer.render(prompt)
        if chat:
            return Encoded(tuple(self.boundary.encode(text)), "")
        ids, moved = self.boundary.plain_prompt(text)
        return Encoded(tuple(ids), moved)


class TextPrompts:
    """Prompts without a tokenizer: plain text, or messages that the server renders. Nothing can be cut.

    Args:
        plain: Whether chat messages are sent as plain text.
    """

    def __init__(self, plain: bool) -> None:
        self.limit = 0
        self._plain = plain
        self.system_role = "native"
        self.variables = False
        self.template_hash = "plain" if plain else "server"

    def prepare(self, prompt: Prompt, room: int = 0) -> Prepared:
        """Return the prompt as text or as messages; ``room`` cannot be checked here."""
        if prompt.messages and not self._plain:
            return Prepared(CHAT, messages=self._arranged(prompt), variables=self.variables)
        text = self.shown(prompt)
        body = text.rstrip(" ")
        return Prepared(COMPLETIONS, body, text[len(body) :])

    def continuation(self, given: str | tuple[int, ...], prepared: Prepared) -> str:
        """Return the text that follows; token ids mean nothing without a tokenizer, messages have no end to follow."""
        if not isinstance(given, str):
            raise ConfigError("token ids cannot be scored on a server without its tokenizer; add tokenizer=FOLDER")
        if prepared.path == CHAT:
            raise ConfigError(
                "a text after chat messages cannot be scored without the served model's tokenizer: the server renders "
                "the messages and shows no seam; add tokenizer=FOLDER (or Hub id), or template='plain'"
            )
        if not given:
            raise ValueError("an empty continuation has nothing to score; give a text of at least one token")
        return prepared.moved + given

    def notes(self, prompt: Prompt) -> tuple[str, ...]:
        """Return what happened to a prompt: merged system message, messages sent as plain text."""
        system = any(role == "system" for role, _ in prompt.messages)
        happened = {
            "merged_system": self.system_role == "merged" and system,
            "plain_fallback": bool(prompt.messages) and self._plain,
        }
        return tuple(name for name, true in happened.items() if true)

    def shown(self, prompt: Prompt) -> str:
        """Return the plain text, or the messages one after the other."""
        if prompt.messages and not self._plain:
            return "\n\n".join(f"{role}: {content}" for role, content in self._arranged(prompt))
        return prompt.plain or "\n\n".join(content for _, content in prompt.messages)

    def _arranged(self, prompt: Prompt) -> tuple[tuple[str, str], ...]:
        return tuple(arrange(prompt.messages, merged=self.system_role == "merged"))


def surfaces_differ(tokenizer: Any, ids: tuple[int, ...], named: tuple[str, ...]) -> Mapping[int, tuple[str, str]]:
    """Compare token surfaces of the server with those of a tokenizer, white space and undecodable bytes aside.

    Args:
        tokenizer: Ours.
        ids: Token ids.
        named: The server's surfaces of them.

    Returns:
        Token id -> (ours, the server's) where they differ.
    """
    differing = {}
    for token, theirs in zip(ids, named, strict=True):
        ours = tokenizer.decode([token], clean_up_tokenization_spaces=False)
        if theirs and "\ufffd" not in ours + theirs and ours.strip() != theirs.strip():
            differing[token] = (ours, theirs)
    return differing
