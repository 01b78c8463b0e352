"""Character classes of the tokeniser, as bodies of regular-expression sets."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from functools import cache

# Writing systems without spaces between words: script -> inclusive code point ranges of letters.
UNSPACED: dict[str, tuple[tuple[int, int], ...]] = {
    "han": ((0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
            (0xF900, 0xFAFF), (0x20000, 0x3FFFD)),
    "hiragana": ((0x3041, 0x3096), (0x309D, 0x309F), (0x1B001, 0x1B11F)),
    "katakana": ((0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF)),
    "hangul": ((0x1100, 0x11FF), (0xA960, 0xA97C), (0xAC00, 0xD7A3), (0xD7B0, 0xD7FB)),
    "thai": ((0x0E01, 0x0E30), (0x0E32, 0x0E33), (0x0E40, 0x0E46)),
    "lao": ((0x0E81, 0x0EB0), (0x0EB2, 0x0EB3), (0x0EBD, 0x0EC6), (0x0EDC, 0x0EDF)),
    "khmer": ((0x1780, 0x17B3), (0x17D7, 0x17D7), (0x17DC, 0x17DC)),
    "myanmar": ((0x1000, 0x102A), (0x103F, 0x103F), (0x1050, 0x1055)),
}  # fmt: skip


@cache
def _categories() -> dict[str, list[tuple[int, int]]]:
    ranges: dict[str, list[tuple[int, int]]] = {}
    for point in range(sys.maxunicode + 1):
        found = ranges.setdefault(unicodedata.category(chr(point)), [])
        if found and found[-1][1] == point - 1:
            found[-1] = (found[-1][0], point)
        else:
            found.append((point, point))
    return ranges


def category_ranges(*categories: str) -> list[tuple[int, int]]:
    """Return the code points of some general categories (such as ``"Mn"``) as inclusive ranges."""
    return [span for category in categories for span in _categories()[category]]


def set_body(ranges: Iterable[tuple[int, int]]) -> str:
    """Return the inside of a regular-expression set that matches these ranges."""
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
