"""Which candidates say nearly the same as the best one: as negatives they would teach the opposite of the label."""

from __future__ import annotations

from collections.abc import Sequence

from utilitune.scoring.answer_match import answer_tokens

WIDTH = 3  # words a shingle


def resemblance(first: str, second: str) -> float:
    """Return the share of word triples that two texts have in common, of all that they have (Broder 1997).

    Case, punctuation and articles play no part; in scripts without spaces a character is a word. A short text
    is one shingle, so that two short ones resemble each other only when equal: facts in the same words about
    another town are the negatives that are wanted.

    Args:
        first: A text.
        second: Another.

    Returns:
        Jaccard similarity in [0, 1]; 0 if both are blank.
    """
    one, other = _shingles(first), _shingles(second)
    return len(one & other) / max(len(one | other), 1)


def near_duplicates_of_best(texts: Sequence[str], utilities: Sequence[float], threshold: float) -> set[int]:
    """Return the candidates that nearly repeat the best one.

    Args:
        texts: Candidates.
        utilities: One a candidate; the first of the largest is the best.
        threshold: Resemblance from which a candidate is a near-duplicate, in (0, 1].

    Returns:
        Indices; the best is not among them.
    """
    best = max(range(len(texts)), key=utilities.__getitem__)
    return {index for index, text in enumerate(texts) if index != best and resemblance(texts[best], text) >= threshold}


def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    words = answer_tokens(text)
    starts = range(max(len(words) - WIDTH + 1, 1 if words else 0))
    return frozenset(tuple(words[start : start + WIDTH]) for start in starts)
