"""Which tokens of an answer carry its information: one boolean a token.

A selector reads the answer under its own context and, where it needs it, the same tokens under the other
context. Nothing selected means everything is selected: a mean over no token does not exist.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from utilitune.generator.protocol import Continuation
from utilitune.records.query import Query
from utilitune.scoring.answer_match import is_unspaced

Mask = tuple[bool, ...]
Selector = Callable[[Query, Continuation, Continuation, float], Mask]

# Marks by which vocabularies write a space, for backends that give tokens as the vocabulary has them.
_SPACE_MARKS = str.maketrans({"\u0120": " ", "\u2581": " ", "\u010a": "\n"})
# What a single token decodes to when it holds only some bytes of a character.
_PARTIAL = "\ufffd"


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

    Words are compared after NFKC and case folding; a word cut into several tokens counts as a whole. In scripts without
    spaces every character is a word.
    """
    asked = [turn.content for turn in query.history if turn.role == "user"] + [query.text]
    known = {_fold(text[start:end]) for text in asked for start, end in _words(text)}
    new = [(start, end) for start, end in _words(answer.text) if _fold(answer.text[start:end]) not in known]
    return all_if_none(
        tuple(any(left < end and start < right for left, right in new) for start, end in token_spans(answer))
    )


def token_spans(answer: Continuation) -> list[tuple[int, int]]:
    """Tell where each token lies in the answer's text.

    Tokens are given by what they look like alone, and that is not always a part of the text: a leading space may be
    missing, a token may hold some bytes of a character only, an end token is no text. So white space is not compared;
    neighbours that hold parts of characters share the stretch up to the next whole one; a token that is not in the text
    lies nowhere.

    Args:
        answer: An answer.

    Returns:
        One (start, end) a token; equal numbers for a token that lies nowhere.

    Raises:
        ValueError: If the tokens do not make up the text.
    """
    text, place = answer.text, 0
    spans: list[tuple[int, int]] = []
    partial = 0  # tokens that hold parts of characters and wait for the next whole one
    for token in answer.tokens:
        piece = token.strip()
        found = -1 if _PARTIAL in piece else _find(text, piece, place, anywhere=partial > 0)
        if found < 0 and piece.translate(_SPACE_MARKS).strip() != piece:
            piece = piece.translate(_SPACE_MARKS).strip()
            found = _find(text, piece, place, anywhere=partial > 0)
        if found >= 0:
            spans += [(place, found)] * partial + [(found, found + len(piece))]
            partial, place = 0, found + len(piece)
        elif partial or _PARTIAL in piece:
            partial += 1
        else:
            # The last token may say more than the answer took from it; anything else is no text.
            rest = text[place:].strip()
            end = len(text) if rest and piece.startswith(rest) else place
            spans.append((place, end))
            place = end
    if text[place:].strip() and not partial:
        raise ValueError(f"the answer's tokens do not make up its text: none is left for {text[place:]!r}")
    return spans + [(place, len(text))] * partial


def _find(text: str, piece: str, place: int, anywhere: bool) -> int:
    """Return where ``piece`` begins: at once but for white space, or anywhere from there; -1 for nowhere."""
    if not piece:
        return place
    if anywhere:
        return text.find(piece, place)
    start = len(text) - len(text[place:].lstrip())
    return start if text.startswith(piece, start) else -1


def _words(text: str) -> list[tuple[int, int]]:
    """Return where the words are: letters, digits and the marks that belong to them."""
    spans: list[tuple[int, int]] = []
    alone = False  # whether the last word is a character of a script without spaces
    for place, char in enumerate(text):
        touches = bool(spans) and spans[-1][1] == place
        mark = unicodedata.category(char).startswith("M")
        letter = char.isalnum() or char == "_"
        if touches and (mark or (letter and not alone and not is_unspaced(char))):
            spans[-1] = (spans[-1][0], place + 1)
        elif letter:
            spans.append((place, place + 1))
            alone = is_unspaced(char)
    return spans


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
