"""A question, alone or as the last turn of a conversation."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["user", "assistant"]


@dataclass(frozen=True)
class Turn:
    """One earlier message of a conversation.

    Attributes:
        role: ``"user"`` or ``"assistant"``.
        content: What was said; may be empty in real data.
    """

    role: Role
    content: str


@dataclass(frozen=True)
class Query:
    """A question to the retriever.

    Attributes:
        id: Query id; always a string. Turns of one conversation share everything before the last ``_``
            (or carry ``metadata["conversation"]``).
        text: The question as the user typed it.
        history: Earlier turns, oldest first, before ``text``.
        answers: Gold answers when there are any; never read by reference-free utilities.
        rewrite: Human stand-alone form when there is one; a yardstick, never a training signal by default.
        metadata: Anything else that the row carried.
    """

    id: str
    text: str
    history: tuple[Turn, ...] = ()
    answers: tuple[str, ...] = ()
    rewrite: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)

    @property
    def conversation(self) -> str:
        """Id of the conversation that this turn belongs to (the unit of train/test splits)."""
        named = self.metadata.get("conversation")
        if named is not None:
            return str(named)
        return self.id.rpartition("_")[0] or self.id

    @property
    def first_question(self) -> str:
        """The first user turn of the conversation, or ``text`` when there is no history."""
        return next((turn.content for turn in self.history if turn.role == "user"), self.text)

    @property
    def first_and_last(self) -> str:
        """The conversation's first question followed by ``text``; ``text`` alone where the first says the same.

        A strong search text for next to nothing: most of what a later turn leaves out was said first.
        """
        first = self.first_question
        if not self.history or _words(first) == _words(self.text):
            return self.text
        return f"{first} {self.text}"


def _words(text: str) -> list[str]:
    """Split into words, case and punctuation (of any script) apart."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(" " if unicodedata.category(char)[0] in "PZC" else char for char in folded).split()
