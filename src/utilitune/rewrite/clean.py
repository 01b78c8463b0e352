"""From what a model wrote to a search query: one line, no labels, no quotes, or nothing at all."""

from __future__ import annotations

import re
import unicodedata

MAX_CHARACTERS = 300
MAX_WORDS = 48

_FENCE = re.compile(r"```[\w-]*[ \t]*$|```", re.MULTILINE)
_TAG = re.compile(r"<\|[^|<>]*\|>|</?s>|</?(?:query|rewrite|question|answer)>", re.IGNORECASE)
# A label in front of the query: "Rewritten question:", "Here is the stand-alone search query:", "Query -".
_LABEL = re.compile(
    r"^(?:(?:sure|certainly|of course|okay|ok)[,!.]?\s+)?"
    r"(?:(?:here(?:'s| is)|this is)\s+)?"
    r"(?:(?:the|a|an|my|your|one)\s+)?"
    r"(?:(?:rewritten|re-written|rephrased|reformulated|revised|resolved|standalone|stand-alone|self-contained|"
    r"final|better|new|search|possible)\s+)*"
    r"(?:query|question|rewrite|reformulation|search|output|answer|q)"
    r"(?:\s+(?:is|would be|could be))?\s*(?::|：|—|\s-\s)\s*",
    re.IGNORECASE,
)
_PREAMBLE = re.compile(r"^(?:sure|certainly|of course|okay|ok|here(?:'s| is| are)|this is)\b[^?]*[:!]$", re.IGNORECASE)
_BULLET = re.compile(r"^(?:[-*•]\s+|\(?\d{1,2}[.)]\s+)")
_ROLE = re.compile(r"^(?:user|assistant|system|human)\s*:?\s*$", re.IGNORECASE)
_EMPHASIS = re.compile(r"(\*\*|__|`)(.+?)\1")
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“", "`": "`", "「": "」"}


def clean_rewrite(text: str, *, max_characters: int = MAX_CHARACTERS, max_words: int = MAX_WORDS) -> str | None:
    """Return the query in ``text``, or ``None`` when there is none to use.

    Code fences, chat markers, labels ("Rewritten question:"), bullets, emphasis and surrounding quotes go;
    the first line with content stays; runs of white space become one blank.

    Args:
        text: What the model wrote.
        max_characters: Longer results are refused (an answer or a loop, not a query).
        max_words: Same, in blank-separated words.

    Returns:
        A non-empty single line, or ``None`` for an empty, over-long or unusable text (no letter or digit, or
        one word repeated over and over).
    """
    text = _TAG.sub(" ", _FENCE.sub("", text))
    for raw in text.splitlines():
        line = _clean_line(raw)
        if line:
            return line if _usable(line, max_characters, max_words) else None
    return None


def normalise(text: str) -> str:
    """Return the form under which two candidates count as the same: NFKC, case-folded, no punctuation, one blank."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(" " if unicodedata.category(char)[0] in "PZC" else char for char in folded)
    return " ".join(kept.split())


def _clean_line(line: str) -> str:
    """Strip one line down to its query; empty when it is only a label or a preamble."""
    line = "".join(char if char == "\t" or unicodedata.category(char)[0] != "C" else " " for char in line)
    line = " ".join(line.split())
    if _PREAMBLE.match(line) or _ROLE.match(line):
        return ""
    before = None
    while line != before:  # layers nest: a bullet, then emphasis, then a label, then quotes
        before = line
        line = _EMPHASIS.sub(r"\2", _BULLET.sub("", line))
        line = _LABEL.sub("", line, count=1).strip()
        line = _unquote(line)
    return line


def _unquote(line: str) -> str:
    """Take off one pair of quotes around the whole line, or a lone opening quote that never closes."""
    if not line or line[0] not in _QUOTES:
        return line
    closing = _QUOTES[line[0]]
    inner = line[1:]
    if inner.endswith(closing) and closing not in inner[:-1]:
        return inner[:-1].strip()
    if line[0] not in "'‘" and closing not in inner:
        return inner.strip()
    # '"The question?" he asked' keeps its quotes; '"The question?" (note)' is rare enough to keep as well.
    return line


def _usable(line: str, max_characters: int, max_words: int) -> bool:
    """Tell whether a cleaned line can serve as a query."""
    words = line.split()
    if len(line) > max_characters or len(words) > max_words:
        return False
    if not any(char.isalnum() for char in line):
        return False
    # A model stuck in a loop: eight or more words of which at most a quarter differ.
    return len(words) < 8 or len({word.casefold() for word in words}) > len(words) / 4
