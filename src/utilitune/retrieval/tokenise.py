"""Text to terms, the same for passages and queries: words of any language, character pairs where words are unmarked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

from utilitune.errors import ConfigError
from utilitune.retrieval.scripts import UNSPACED, category_ranges, set_body

# fmt: off
LUCENE = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
))
QUESTION_WORDS = frozenset((
    "what", "who", "whom", "whose", "which", "when", "where", "why", "how", "do", "does", "did",
))
# fmt: on
# Question words match by chance only, and questions are short; "a" stays, as in "vitamin A".
ENGLISH = (LUCENE | QUESTION_WORDS) - {"a"}
STOPWORDS: dict[str, frozenset[str]] = {"english": ENGLISH, "lucene": LUCENE, "none": frozenset()}

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_POSSESSIVE = re.compile(r"(?<=[^\W_])['\u2019]s(?![^\W_])")


@dataclass(frozen=True)
class Tokeniser:
    """Splits text into terms.

    Text is brought to NFKC and case-folded *before* it is split, so composed and decomposed accents, full-width
    and half-width forms and upper and lower case meet. Terms are runs of letters and digits with the combining
    marks that belong to them (one character is enough), and single symbols such as emoji. Scripts without spaces
    become overlapping pairs of characters (a character keeps its marks), a lone character stays alone: a query of
    two characters or more finds longer text, a query of one finds only text where it stands alone. Digits of all
    scripts read as 0-9. English possessive ``'s``, soft hyphens, joiners, variation selectors and the optional
    vowel points of Arabic and Hebrew are dropped.

    Attributes:
        stopwords: Terms to leave out: a known list (``"english"``: Lucene's without "a", and question words;
            ``"lucene"``; ``"none"``) or the terms themselves.
        pairs: Scripts that become character pairs, out of ``UNSPACED``.

    Raises:
        ConfigError: For an unknown list or script.
    """

    stopwords: str | Collection[str] = "english"
    pairs: tuple[str, ...] = tuple(UNSPACED)
    _stop: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        unknown = [script for script in self.pairs if script not in UNSPACED]
        if unknown:
            raise ConfigError(f"unknown scripts {unknown}; known: {', '.join(UNSPACED)}")
        if not isinstance(self.stopwords, str):
            object.__setattr__(self, "stopwords", frozenset(self.stopwords))
        elif self.stopwords not in STOPWORDS:
            raise ConfigError(
                f"unknown stopword list {self.stopwords!r}; known: {', '.join(STOPWORDS)}, or give the words as a list"
            )
        object.__setattr__(self, "_stop", _stop_terms(self.stopwords, self.pairs))

    def __call__(self, text: str) -> list[str]:
        """Return the terms of ``text`` in order, stopwords left out."""
        terms = split(text, self.pairs)
        return [term for term in terms if term not in self._stop] if self._stop else terms

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON-ready values; stopwords are written out, so that a list may change later."""
        return {"stopwords": sorted(self._stop), "pairs": list(self.pairs)}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Tokeniser:
        """Return the tokeniser that ``as_dict`` described."""
        return cls(stopwords=frozenset(settings["stopwords"]), pairs=tuple(settings["pairs"]))


def normalise(text: str) -> str:
    """Return ``text`` in the form that is split: NFKC, case-folded, optional marks dropped, ASCII digits."""
    if text.isascii():
        return _POSSESSIVE.sub("", text.lower()) if "'" in text else text.lower()
    # Case-folding can undo composition, hence the second pass.
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    text = text.replace("i\u0307", "i")  # what case-folding makes of the Turkish capital
    patterns = _patterns(())
    text = patterns.dropped.sub("", text)
    text = patterns.digit.sub(lambda match: str(unicodedata.decimal(match[0])), text)
    return _POSSESSIVE.sub("", text)


def split(text: str, pairs: Iterable[str] = tuple(UNSPACED)) -> list[str]:
    """Return all terms of ``text``, stopwords included; ``pairs`` names the scripts that become character pairs."""
    text = normalise(text)
    if text.isascii():
        return _ASCII_WORD.findall(text)
    patterns = _patterns(tuple(pairs))
    terms: list[str] = []
    for match in patterns.term.finditer(text):
        if match.lastgroup != "run":
            terms.append(match[0])
            continue
        characters = patterns.character.findall(match[0])
        if len(characters) == 1:
            terms += characters
        else:
            terms += [first + second for first, second in pairwise(characters)]
    return terms


@dataclass(frozen=True)
class _Patterns:
    term: re.Pattern[str]
    character: re.Pattern[str]
    dropped: re.Pattern[str]
    digit: re.Pattern[str]


@cache
def _patterns(pairs: tuple[str, ...]) -> _Patterns:
    unspaced = set_body(span for script in pairs for span in UNSPACED[script])
    marks = set_body(category_ranges("Mn", "Mc"))
    symbols = set_body(category_ranges("So"))
    # Format characters (all but the zero-width space, which parts words), variation selectors, Arabic and Hebrew
    # points, tatweel: texts with and without them must meet.
    formats = [span for span in category_ranges("Cf") if not span[0] <= 0x200B <= span[1]]
    formats += [(0x200C, 0x200F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF), (0x0591, 0x05BD), (0x05BF, 0x05BF)]
    formats += [(0x05C1, 0x05C2), (0x05C4, 0x05C5), (0x05C7, 0x05C7)]
    formats += [(0x0640, 0x0640), (0x064B, 0x0652), (0x0670, 0x0670)]
    word = rf"(?:[^\W_{unspaced}]+[{marks}]*)+"
    run = rf"(?P<run>(?:[{unspaced}][{marks}]*)+)|" if unspaced else ""
    return _Patterns(
        term=re.compile(rf"{run}(?P<word>{word})|(?P<symbol>[{symbols}])"),
        character=re.compile(rf"[{unspaced}][{marks}]*" if unspaced else r"(?!)"),
        dropped=re.compile(f"[{set_body(formats)}]"),
        digit=re.compile(f"[{set_body(span for span in category_ranges('Nd') if span[0] > 0x7F)}]"),
    )


def _stop_terms(stopwords: str | Collection[str], pairs: tuple[str, ...]) -> frozenset[str]:
    words = STOPWORDS[stopwords] if isinstance(stopwords, str) else stopwords
    return frozenset(term for word in words for term in split(word, pairs))
