"""A passage of the corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Passage:
    """One retrievable unit of text.

    Attributes:
        id: Passage id; always a string (``"007"`` stays ``"007"``).
        text: Body, untouched.
        title: Title, ``""`` when there is none.
        metadata: Anything else that the corpus row carried.
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)

    @property
    def full_text(self) -> str:
        """Title and text as retrievers and rerankers read them, joined by a newline."""
        return f"{self.title}\n{self.text}" if self.title else self.text
