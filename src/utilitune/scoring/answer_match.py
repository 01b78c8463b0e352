"""Normalisation and matching of short answers, in any script."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b", re.IGNORECASE)
# Scripts that write no spaces between words: each character is a token there.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xF900, 0xFAFF),  # Han, compatibility
    (0x20000, 0x323AF),  # Han, extensions B and later
)


def normalise_answer(text: str) -> str:
    """Normalise as SQuAD's script does, for every script.

    NFKC and case folding; punctuation of all scripts deleted (``U.S.`` → ``us``); English articles deleted;
    runs of white space to one space. A step that would leave nothing of a text that is not blank is not
    taken, so that the gold answer ``A`` does not match an empty answer.

    Args:
        text: Any text.

    Returns:
        The normal form; empty only for blank text.
    """
    # Case folding can undo NFKC (ſ, ligatures): normalise on both sides of it.
    folded = _squeeze(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()))
    bare = _squeeze("".join(char for char in folded if not _is_punctuation(char))) or folded
    return _squeeze(_ARTICLES.sub(" ", bare)) or bare


def answer_tokens(text: str) -> list[str]:
    """Split the normal form of ``text``: words at spaces, or characters in scripts without spaces."""
    return _split(normalise_answer(text))


def exact_match(answer: str, golds: str | Sequence[str]) -> float:
    """Return 1 when the normalised answer equals a normalised gold answer, else 0.

    Args:
        answer: The generator's answer.
        golds: Gold answers; blank ones are ignored.

    Returns:
        0 or 1.

    Raises:
        ValueError: If there is no gold answer.
    """
    form = normalise_answer(answer)
    return float(any(form == normalise_answer(gold) for gold in _usable(golds)))


def f1(answer: str, golds: str | Sequence[str]) -> float:
    """Return the token F1 against the best gold answer.

    Args:
        answer: The generator's answer.
        golds: Gold answers; blank ones are ignored.

    Returns:
        A value in [0, 1]; 0 without a common token.

    Raises:
        ValueError: If there is no gold answer.
    """
    said = answer_tokens(answer)
    return max(_overlap(said, answer_tokens(gold)) for gold in _usable(golds))


def contains(answer: str, golds: str | Sequence[str]) -> float:
    """Return 1 when a gold answer occurs in the answer as a run of whole tokens, else 0.

    ``us`` does not occur in ``because``; ``Einstein`` occurs in ``Einstein's``. Where a script writes no
    spaces, characters are tokens and word boundaries are unknown.

    Args:
        answer: The generator's answer.
        golds: Gold answers; blank ones are ignored.

    Returns:
        0 or 1.

    Raises:
        ValueError: If there is no gold answer.
    """
    usable = _usable(golds)
    if any(_occurs(answer_tokens(gold), answer_tokens(answer)) for gold in usable):
        return 1.0
    said = answer_tokens(_POSSESSIVE.sub("", answer))
    return float(any(_occurs(answer_tokens(_POSSESSIVE.sub("", gold)), said) for gold in usable))


ANSWER_MEASURES: dict[str, Callable[[str, str | Sequence[str]], float]] = {
    "EM": exact_match,
    "F1": f1,
    "contains": contains,
}


def usable_golds(golds: Sequence[str]) -> list[str]:
    """Return the gold answers that are not blank."""
    return [gold for gold in golds if gold.strip()]


def _usable(golds: str | Sequence[str]) -> list[str]:
    usable = usable_golds([golds] if isinstance(golds, str) else golds)
    if not usable:
        raise ValueError("no gold answer to compare with (none given, or all blank)")
    return usable


def _is_punctuation(char: str) -> bool:
    return char in string.punctuation or unicodedata.category(char).startswith("P")


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def is_unspaced(char: str) -> bool:
    """Tell whether a character is of a script that writes no spaces between words."""
    return any(low <= ord(char) <= high for low, high in _UNSPACED)


def _split(text: str) -> list[str]:
    tokens: list[str] = []
    for word in text.split():
        current = ""
        for char in word:
            if is_unspaced(char):
                # Vowel signs and tone marks belong to the character before them.
                if unicodedata.category(char).startswith("M") and (current or tokens):
                    if current:
                        current += char
                    else:
                        tokens[-1] += char
                    continue
                tokens += [current, char] if current else [char]
                current = ""
            else:
                current += char
        if current:
            tokens.append(current)
    return tokens


def _overlap(said: list[str], gold: list[str]) -> float:
    common = sum((Counter(said) & Counter(gold)).values())
    return 2 * common / (len(said) + len(gold)) if common else 0.0


def _occurs(needle: list[str], hay: list[str]) -> bool:
    width = len(needle)
    return any(hay[start : start + width] == needle for start in range(len(hay) - width + 1))
