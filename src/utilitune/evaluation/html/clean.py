"""Text from anywhere, made fit to stand on a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LIMIT = 2_000
"""Characters of one text that a page shows."""


@dataclass
class Cleaner:
    """Cuts long texts and replaces characters that no file can carry; escaping is the template's work.

    Attributes:
        limit: Characters that are kept of one text.
        cut: Texts that were longer.
        replaced: Texts that held control characters or lone surrogates, now U+FFFD.
    """

    limit: int = LIMIT
    cut: int = 0
    replaced: int = 0

    def __call__(self, value: Any) -> Any:
        """Return a copy of a JSON-ready value with every string, keys included, cleaned."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(str(key)): self(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self(item) for item in value]
        return value

    def _text(self, text: str) -> str:
        if len(text) > self.limit:
            self.cut += 1
            text = f"{text[: self.limit]}… ({len(text) - self.limit:,} more characters)"
        clean = "".join(char if _shows(char) else "\ufffd" for char in text)
        self.replaced += clean != text
        return clean


def _shows(char: str) -> bool:
    code = ord(char)
    return char in "\t\n\r" or not (
        code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000 or code & 0xFFFE == 0xFFFE
    )
