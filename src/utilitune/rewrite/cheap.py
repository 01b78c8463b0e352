"""Candidate queries that cost nothing: made from the conversation itself, without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from utilitune.records.query import Query
from utilitune.retrieval.tokenise import ENGLISH
from utilitune.rewrite.clean import normalise

# fmt: off
# A pronoun of a later turn names nothing.
POINTERS = frozenset((
    "a", "i", "me", "my", "you", "your", "he", "him", "his", "she", "her", "hers", "its", "we", "us", "our", "them",
    "those", "one", "ones", "there", "here", "has", "have", "had", "were", "been", "can", "could", "would", "should",
    "about", "from", "so", "any", "some", "other", "also", "else", "tell", "please",
))
# fmt: on
STOPWORDS = ENGLISH | POINTERS


def original(query: Query) -> str:
    """Return the question as typed."""
    return query.text


def first_question(query: Query) -> str:
    """Return the conversation's first question, then the question."""
    return query.first_and_last


def previous_question(query: Query) -> str:
    """Return the question asked just before, then the question."""
    return " ".join([*_asked(query)[-1:], query.text])


def history(query: Query) -> str:
    """Return all that the user asked, oldest first, then the question."""
    return " ".join([*_asked(query), query.text])


def keywords(query: Query) -> str:
    """Return the content words of the first question and the question, each once, in order."""
    words = normalise(f"{query.first_question} {query.text}").split()
    return " ".join(dict.fromkeys(word for word in words if word not in STOPWORDS)) or query.text


CHEAP: Mapping[str, Callable[[Query], str]] = {
    "original": original,
    "first-question": first_question,
    "previous-question": previous_question,
    "history": history,
    "keywords": keywords,
}
"""Search text of a conversational question, by the name that ``Candidate.source`` carries."""


def _asked(query: Query) -> list[str]:
    """Return the user's earlier turns that are not the question over again."""
    said = [turn.content for turn in query.history if turn.role == "user" and turn.content.strip()]
    return [text for text in said if normalise(text) != normalise(query.text)]
