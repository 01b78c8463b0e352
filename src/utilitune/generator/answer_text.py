"""From generated ids to an answer: where it ends, which tokens are its own, what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def stop_at(text: str, stop: Sequence[str]) -> int:
    """Return where the first stop string begins in ``text``, -1 when there is none."""
    found = [place for place in (text.find(end) for end in stop) if place >= 0]
    return min(found, default=-1)


class AnswerText:
    """Decodes ids for one tokenizer.

    Args:
        tokenizer: A transformers tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids without special tokens."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def surfaces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return what each id looks like alone, special tokens included."""
        decode = self._tokenizer.decode
        return tuple(decode([token], clean_up_tokenization_spaces=False) for token in ids)

    def own(self, ids: Sequence[int], ended: bool, stop: Sequence[str]) -> tuple[int, str]:
        """Tell the answer from what ended it.

        Args:
            ids: Generated ids, the end token included.
            ended: Whether the last id is an end-of-sequence token.
            stop: Stop strings.

        Returns:
            How many leading ids are the answer's own (at least 1: an answer that ended at once keeps its end token),
            and the answer's text, stripped.
        """
        own = len(ids) - 1 if ended else len(ids)
        text = self.decode(ids[:own])
        place = stop_at(text, stop)
        if place >= 0:
            text = text[:place]
            # The fewest ids that spell the answer: a token that holds its last letters and the stop string counts.
            own = next((count for count in range(own + 1) if self.decode(ids[:count]).startswith(text)), own)
        return max(own, 1), text.strip()
