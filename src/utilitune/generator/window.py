"""Fitting prompts into the context window: only passages are ever cut, from their end, at a token boundary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Prompt

# A tokenizer without a limit says 10^30.
_NO_LIMIT = 1_000_000_000
# Room kept after prompts that may be cut, so that a short and a longer request about one prompt see the same cut.
_RESERVE = 64
_POSITION_FIELDS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx")

POLICIES = ("truncate", "error")


class PromptTooLong(ValueError):
    """A prompt does not fit the context window, and nothing in it may be cut (further)."""


@dataclass(frozen=True)
class Encoded:
    """A prompt in tokens.

    Attributes:
        ids: Token ids.
        moved: Trailing spaces of a plain prompt, to be put before a continuation.
        truncated: Whether passages were cut.
    """

    ids: tuple[int, ...]
    moved: str
    truncated: bool = False


class Fitted(Protocol):
    """A prompt that was made to fit."""

    @property
    def truncated(self) -> bool:
        """Whether passages were cut."""
        ...


T = TypeVar("T", bound=Fitted)


def fit_each(fit: Callable[[int], T], rooms: Sequence[int]) -> list[T]:
    """Fit one prompt for each room: what else is asked of it does not change where it is cut.

    Args:
        fit: Fits the prompt, leaving so many tokens free.
        rooms: Tokens needed after it, one entry a thing that is asked of it.

    Returns:
        The prompt for each room; one object where nothing is cut.
    """
    widest = max(rooms, default=0)
    whole = fit(widest)
    if not whole.truncated:
        return [whole] * len(rooms)
    fitted = {room: fit(room) for room in {*rooms} - {widest}}
    return [fitted.get(room, whole) for room in rooms]


def window_of(config: Any, tokenizer: Any) -> int:
    """Return the context window in tokens: the smaller of the model's positions and the tokenizer's limit.

    Args:
        config: A transformers model config.
        tokenizer: A transformers tokenizer.

    Returns:
        Tokens, prompt and answer together.

    Raises:
        ConfigError: When neither states a limit.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    limits = [int(getattr(text, name)) for name in _POSITION_FIELDS if getattr(text, name, None)]
    if tokenizer.model_max_length and tokenizer.model_max_length < _NO_LIMIT:
        limits.append(int(tokenizer.model_max_length))
    if not limits:
        raise ConfigError("neither model nor tokenizer states a context window; set model_max_length in the tokenizer")
    return min(limits)


class Window:
    """Encodes prompts so that prompt and answer fit.

    Args:
        limit: Context window in tokens.
        encode: Turns a prompt into tokens.
        tokenizer: For finding token boundaries inside passages.
        policy: ``"truncate"`` cuts passages; ``"error"`` refuses any prompt that does not fit whole.

    Raises:
        ConfigError: For an unknown policy.
    """

    def __init__(
        self, limit: int, encode: Callable[[Prompt], Encoded], tokenizer: Any, policy: str = "truncate"
    ) -> None:
        if policy not in POLICIES:
            raise ConfigError(f"unknown overflow policy {policy!r}; known: {list(POLICIES)}")
        self.limit = limit
        self._encode = encode
        self._tokenizer = tokenizer
        self._policy = policy

    def fit(self, prompt: Prompt, room: int) -> Encoded:
        """Encode a prompt, cutting its passages when it does not fit.

        Every passage is cut to the same largest number of tokens that fits, so short passages stay whole.

        Args:
            prompt: The prompt.
            room: Tokens needed after it; at least 64 (an eighth of a small window) where passages may be cut.

        Returns:
            The prompt in tokens, ``len(ids) + room <= limit``.

        Raises:
            PromptTooLong: When it does not fit even with empty passages, or the policy is ``"error"``.
        """
        cuttable = bool(prompt.trim) and self._policy == "truncate"
        if cuttable:
            room = max(room, min(_RESERVE, self.limit // 8))
        whole = self._encode(prompt)
        if len(whole.ids) + room <= self.limit:
            return whole
        if not cuttable:
            raise PromptTooLong(
                f"the prompt takes {len(whole.ids)} tokens and its answer {room}, the context window is {self.limit}"
                + ("" if prompt.trim else "; nothing in this prompt may be cut")
            )
        offsets = {text: self._token_ends(text) for text in prompt.trim}
        low, high = 0, max(len(ends) for ends in offsets.values())
        best = self._encode(_cut(prompt, offsets, 0))
        if len(best.ids) + room > self.limit:
            raise PromptTooLong(
                f"the prompt takes {len(best.ids)} tokens without any passage and its answer {room}, "
                f"the context window is {self.limit}"
            )
        while high - low > 1:
            middle = (low + high) // 2
            tried = self._encode(_cut(prompt, offsets, middle))
            if len(tried.ids) + room <= self.limit:
                low, best = middle, tried
            else:
                high = middle
        return replace(best, truncated=True)

    def _token_ends(self, text: str) -> list[int]:
        """Return the character offset at which each token of a text ends."""
        if self._tokenizer.is_fast:
            coded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            return [end for _, end in coded["offset_mapping"]]
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return [min(len(self._tokenizer.decode(ids[:count])), len(text)) for count in range(1, len(ids) + 1)]


def _cut(prompt: Prompt, offsets: dict[str, list[int]], cap: int) -> Prompt:
    """Shorten every passage to at most ``cap`` tokens."""
    messages, plain = prompt.messages, prompt.plain
    # Longest first, so that a passage that occurs inside another does not spoil it.
    for text in sorted(offsets, key=len, reverse=True):
        ends = offsets[text]
        if len(ends) <= cap:
            continue
        short = text[: ends[cap - 1]] if cap else ""
        messages = tuple((role, content.replace(text, short)) for role, content in messages)
        plain = plain.replace(text, short)
    return Prompt(messages=messages, plain=plain)
