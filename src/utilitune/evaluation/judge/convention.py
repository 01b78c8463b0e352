"""What the judgements of one pair of answers are worth, by convention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from utilitune.errors import ConfigError
from utilitune.evaluation.judge.judgement import Judgement, Verdict


@dataclass(frozen=True)
class Worth:
    """What one question adds to a tally.

    Attributes:
        wins_a: For the first system.
        wins_b: For the second.
        units: Of how many; what neither has are ties.
    """

    wins_a: int
    wins_b: int
    units: int

    @property
    def ties(self) -> int:
        """Units that nobody won."""
        return self.units - self.wins_a - self.wins_b


Pair = Sequence[Judgement]
"""Judgements of one question by one dimension, at most one an order."""


def hirag(pair: Pair) -> Worth | None:
    """Count every parsed judgement by itself (HiRAG's evaluation, arXiv 2503.10150): a split pair is half a win each.

    Args:
        pair: The judgements.

    Returns:
        Wins of up to two units; ``None`` when nothing was parsed.
    """
    verdicts = [each.verdict for each in pair if each.verdict is not None]
    return Worth(verdicts.count("a"), verdicts.count("b"), len(verdicts)) if verdicts else None


def strict(pair: Pair) -> Worth | None:
    """Count a win only where both orders agree on it; orders that disagree, and declared ties, are ties.

    Args:
        pair: The judgements.

    Returns:
        One unit; ``None`` unless both orders were parsed.
    """
    verdicts = [each.verdict for each in pair if each.verdict is not None]
    if len(verdicts) < 2:
        return None
    return _one(verdicts[0] if verdicts[0] == verdicts[1] else "tie")


def debiased(pair: Pair) -> Worth | None:
    """Count the system whose probability, averaged over both orders, is over one half.

    Args:
        pair: The judgements.

    Returns:
        One unit, a tie only at exactly one half; ``None`` unless both orders have probabilities.
    """
    shares = [each.p_a for each in pair if each.p_a is not None]
    if len(shares) < 2:
        return None
    # Equal probabilities of one letter give one half up to the last bit.
    lead = sum(shares) - 1
    return _one("tie" if abs(lead) < 1e-12 else "a" if lead > 0 else "b")


Convention = Callable[[Pair], Worth | None]
CONVENTIONS: Mapping[str, Convention] = {"strict": strict, "hirag": hirag, "debiased": debiased}


def find_convention(name: str) -> Convention:
    """Return a convention by name.

    Args:
        name: ``"strict"``, ``"hirag"`` or ``"debiased"``.

    Returns:
        The function.

    Raises:
        ConfigError: For an unknown name.
    """
    if name not in CONVENTIONS:
        raise ConfigError(f"unknown convention {name!r}; known: {', '.join(CONVENTIONS)}")
    return CONVENTIONS[name]


def winner(worth: Worth) -> Verdict:
    """Return who has more wins."""
    return "tie" if worth.wins_a == worth.wins_b else "a" if worth.wins_a > worth.wins_b else "b"


def _one(verdict: Verdict) -> Worth:
    return Worth(int(verdict == "a"), int(verdict == "b"), 1)
