"""How often gold passages are worth more than others: share beaten and reciprocal rank, question by question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from utilitune.evaluation.significance import RESAMPLES, SEED, bootstrap_interval

Group = tuple[float, Sequence[float]]
"""One question: utility of its gold passage, utilities of the passages beside it."""


@dataclass(frozen=True)
class Share:
    """Share of passages that the gold passage of their question beats, in [0, 1]; chance is ½.

    Attributes:
        questions: Questions with a passage to beat.
        pairs: (gold, other) pairs.
        wins: Pairs where gold is worth more.
        ties: Pairs of equal worth.
        losses: Pairs where gold is worth less.
        per_question: Share of each question, ties counting ½.
        share: Mean of ``per_question``; the share of pairs where all questions have equally many. ``None``
            without questions.
        low: Lower end of the 95 % bootstrap interval over questions, ``None`` below two.
        high: Upper end.
        better: Questions whose gold passage beats more than half of the others.
        worse: Questions whose gold passage beats fewer.
        p: Two-sided p of the sign test over questions (``better`` against ``worse``), in (0, 1].
    """

    questions: int
    pairs: int
    wins: int
    ties: int
    losses: int
    per_question: tuple[float, ...]
    share: float | None
    low: float | None
    high: float | None
    better: int
    worse: int
    p: float


@dataclass(frozen=True)
class ReciprocalRank:
    """Mean reciprocal rank of the gold passage among the candidates of its question, in (0, 1].

    Attributes:
        questions: Questions with a passage beside the gold one.
        tied: Questions whose gold passage ties with another.
        mrr: Expected value over all orders of tied passages, ``None`` without questions.
        low: Lower end of its 95 % bootstrap interval over questions, ``None`` below two.
        high: Upper end.
        pessimistic: With the gold passage behind all that tie with it.
        chance: What a random order gives.
    """

    questions: int
    tied: int
    mrr: float | None
    low: float | None
    high: float | None
    pessimistic: float | None
    chance: float | None


def share_beaten(groups: Sequence[Group], *, resamples: int = RESAMPLES, seed: int = SEED) -> Share:
    """Compute how often gold beats the others.

    Pairs of one question share its gold passage, so interval and test count questions, not pairs.

    Args:
        groups: One a question; those without others are left out.
        resamples: Draws of the bootstrap.
        seed: Seed of the draws.

    Returns:
        The share, its interval and its test.
    """
    kept = [(gold, others) for gold, others in groups if others]
    wins = [sum(gold > other for other in others) for gold, others in kept]
    ties = [sum(gold == other for other in others) for gold, others in kept]
    pairs = [len(others) for _, others in kept]
    values = [(win + tie / 2) / pair for win, tie, pair in zip(wins, ties, pairs, strict=True)]
    better, worse = sum(value > 0.5 for value in values), sum(value < 0.5 for value in values)
    low, high = bootstrap_interval(values, resamples=resamples, seed=seed) or (None, None)
    return Share(
        questions=len(kept),
        pairs=sum(pairs),
        wins=sum(wins),
        ties=sum(ties),
        losses=sum(pairs) - sum(wins) - sum(ties),
        per_question=tuple(values),
        share=fmean(values) if values else None,
        low=low,
        high=high,
        better=better,
        worse=worse,
        p=sign_test(better, worse),
    )


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided p of the sign test: ties left out, exact binomial.

    Args:
        better: Differences above 0.
        worse: Differences below 0.

    Returns:
        A value in (0, 1]; 1 without a difference.
    """
    from scipy.stats import binomtest  # type: ignore[import-untyped,unused-ignore]

    if not better + worse:
        return 1.0
    return float(binomtest(better, better + worse).pvalue)


def reciprocal_rank(groups: Sequence[Group], *, resamples: int = RESAMPLES, seed: int = SEED) -> ReciprocalRank:
    """Compute the mean reciprocal rank of gold.

    With ``b`` others worth more and ``t`` worth the same, gold has each of the ranks ``b + 1 … b + t + 1`` with equal
    chance: the expected value is the mean of their reciprocals, the pessimistic one is ``1 / (b + t + 1)``.

    Args:
        groups: One a question; those without others are left out.
        resamples: Draws of the bootstrap.
        seed: Seed of the draws.

    Returns:
        Expected and pessimistic mean, with the interval of the first.
    """
    expected, last, chance, tied = [], [], [], 0
    for gold, others in groups:
        if not others:
            continue
        above, equal = sum(other > gold for other in others), sum(other == gold for other in others)
        expected.append(_mean_reciprocal(above + 1, above + equal + 1))
        last.append(1 / (above + equal + 1))
        chance.append(_mean_reciprocal(1, len(others) + 1))
        tied += equal > 0
    low, high = bootstrap_interval(expected, resamples=resamples, seed=seed) or (None, None)
    means = [fmean(values) if values else None for values in (expected, last, chance)]
    return ReciprocalRank(len(expected), tied, means[0], low, high, means[1], means[2])


def _mean_reciprocal(first: int, last: int) -> float:
    return fmean(1 / rank for rank in range(first, last + 1))
