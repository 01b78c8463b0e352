"""Where the prompt ends and the continuation begins, in tokens: one rule for every model and every caller.

The continuation is encoded alone, without special tokens, and its ids follow the prompt's ids. No token ever spans the
seam, so a continuation always owns its tokens, whatever merges the tokenizer knows. Spaces at the end of a plain prompt
move to the continuation, where tokenizers expect them. A continuation after a plain prompt without a trailing space
gets a leading space only if the caller writes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_ANCHOR = "\n"


class Boundary:
    """Encodes prompts and continuations for one tokenizer.

    Args:
        tokenizer: A transformers tokenizer.
        vocabulary: Number of ids that the model knows.
    """

    def __init__(self, tokenizer: Any, vocabulary: int) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        # Some tokenizers put a space before every text that they are given; behind an anchor they do not.
        first = tokenizer.convert_ids_to_tokens(self.encode("x"))[:1]
        self._anchored = bool(first) and first[0].startswith("\u2581")
        with_special = tokenizer("x")["input_ids"]
        bos = tokenizer.bos_token_id
        self._bos = bos if bos is not None and with_special[:1] == [bos] else None

    def encode(self, text: str) -> list[int]:
        """Encode text with no special tokens added."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def plain_prompt(self, text: str) -> tuple[list[int], str]:
        """Encode a plain prompt.

        Args:
            text: The prompt.

        Returns:
            Its ids, with the beginning-of-sequence token exactly once where the tokenizer itself would add it, and
            the trailing spaces that move to the continuation.

        Raises:
            ValueError: When nothing is left to condition on.
        """
        body = text.rstrip(" ")
        ids = self.encode(body)
        if self._bos is not None and ids[:1] != [self._bos]:
            ids = [self._bos, *ids]
        if not ids:
            start = self._tokenizer.bos_token_id
            start = self._tokenizer.eos_token_id if start is None else start
            if start is None:
                raise ValueError("an empty prompt needs a tokenizer with a beginning- or end-of-sequence token")
            ids = [start]
        return ids, text[len(body) :]

    def continuation(self, given: str | Sequence[int], moved: str = "") -> list[int]:
        """Encode a continuation.

        Args:
            given: Its text, or token ids as a generation gave them.
            moved: Spaces that the prompt handed over; not used for ids.

        Returns:
            At least one token id.

        Raises:
            ValueError: When it has no token, or an id outside the vocabulary.
        """
        if not isinstance(given, str):
            ids = [int(token) for token in given]
            wrong = [token for token in ids if not 0 <= token < self._vocabulary]
            if wrong:
                raise ValueError(f"token id {wrong[0]} is outside the vocabulary of {self._vocabulary}")
        else:
            ids = self._encode_alone(moved + given) if given else []
        if not ids:
            raise ValueError("an empty continuation has nothing to score; give a text of at least one token")
        return ids

    def _encode_alone(self, text: str) -> list[int]:
        if self._anchored:
            anchor, both = self.encode(_ANCHOR), self.encode(_ANCHOR + text)
            if both[: len(anchor)] == anchor:
                return both[len(anchor) :]
        return self.encode(text)
