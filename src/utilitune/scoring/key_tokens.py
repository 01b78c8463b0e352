"""Which tokens of an answer carry its information: one boolean a token.

A selector reads the answer under its own context and, where it needs it, the same tokens under the other
context. Nothing selected means everything is selected: a mean over no token does not exist.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from utilitune.generator.protocol import Continuation
from utilitune.records.query import Query

Mask = tuple[bool, ...]
Selector = Callable[[Query, Continuation, Continuation, float], Mask]

# Scripts written without spaces count character by character, everything else by runs of word characters.
_SPACELESS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_SPACELESS}]|(?:(?![{_SPACELESS}])\w)+")
# Marks by which byte-pair and sentence-piece vocabularies write a space.
_SPACE_MARKS = str.maketrans({"\u0120": " ", "\u2581": " ", "\u010a": "\n"})


def delta_logprob(query: Query, answer: Continuation, other: Continuation, tau: float) -> Mask:
    """Select tokens whose log-probability moves by at least ``tau`` nats between the two contexts.

    ``K = {t : |ln p(y_t|c, y_<t) - ln p(y_t|c', y_<t)| >= tau}``: question-repeating and lead-in
    tokens drop out.
    """
    if len(answer.logprobs) != len(other.logprobs):
        raise ValueError(
            f"the answer has {len(answer.logprobs)} tokens under its own prompt, {len(other.logprobs)} under the other"
        )
    moved = (abs(own - theirs) for own, theirs in zip(answer.logprobs, other.logprobs, strict=True))
    return all_if_none(tuple(delta >= tau for delta in moved))


def question_overlap(query: Query, answer: Continuation, other: Continuation, tau: float) -> Mask:
    """Select tokens that belong to a word which the user's turns do not hold; punctuation is never selected.

    Words are compared after NFKC and case folding; a word cut into several tokens counts as a whole.
    """
    asked = [turn.content for turn in query.history if turn.role == "user"] + [query.text]
    known = {word for text in asked for word in _WORD.findall(_fold(text))}
    # Folding may change lengths (ß, ligatures), so tokens are folded one by one before they are joined.
    pieces = [_fold(token.translate(_SPACE_MARKS)) for token in answer.tokens]
    ends, position = [], 0
    for piece in pieces:
        position += len(piece)
        ends.append(position)
    starts = [0, *ends[:-1]]
    new = [match.span() for match in _WORD.finditer("".join(pieces)) if match.group() not in known]
    return all_if_none(
        tuple(any(left < end and start < right for left, right in new) for start, end in zip(starts, ends, strict=True))
    )


def every_token(query: Query, answer: Continuation, other: Continuation, tau: float) -> Mask:
    """Select all tokens."""
    return (True,) * len(answer.tokens)


def all_if_none(mask: Mask) -> Mask:
    """Return ``mask``, or all true when nothing is selected."""
    return mask if any(mask) else (True,) * len(mask)


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


SELECTORS: dict[str, Selector] = {
    "delta-logprob": delta_logprob,
    "question-overlap": question_overlap,
    "all": every_token,
}
"""Selectors by name."""

NEEDS_OTHER_CONTEXT = frozenset({"delta-logprob"})
"""Selectors that read the same tokens under the other context (two more scored texts, no more prefills)."""
