"""Win rates of one system over another by one dimension, and how far the judge can be trusted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from utilitune.errors import DataError
from utilitune.evaluation.judge.convention import Pair, Worth, find_convention
from utilitune.evaluation.judge.interval import SEED, Interval, ratio_interval, sign_test, wilson
from utilitune.evaluation.judge.judgement import Judgement

CONSISTENT_FROM = 0.6


@dataclass(frozen=True)
class Rate:
    """A win rate by one convention.

    Attributes:
        convention: Its name.
        questions: Questions that count.
        units: Pairs (strict, debiased) or parsed judgements (hirag).
        wins: Units that the first system won.
        losses: Units that the second won.
        interval: 95 % bootstrap interval of ``win_rate``, questions drawn whole.
        wilson: 95 % Wilson interval where each question is one unit; ``None`` for hirag over both orders, since the two
            judgements of a question are not independent.
        p: Two-sided sign test of wins against losses over questions (those that split count for neither).
    """

    convention: str
    questions: int
    units: int
    wins: int
    losses: int
    interval: Interval | None
    wilson: Interval | None
    p: float

    @property
    def ties(self) -> int:
        """Units that nobody won."""
        return self.units - self.wins - self.losses

    @property
    def win_rate(self) -> float | None:
        """Wins of the first system over units, in [0, 1]; ``None`` without units."""
        return self.wins / self.units if self.units else None

    @property
    def loss_rate(self) -> float | None:
        """Wins of the second system over units."""
        return self.losses / self.units if self.units else None


@dataclass(frozen=True)
class Tally:
    """All judgements of two systems by one dimension.

    Attributes:
        dimension: The dimension.
        system_a: The system whose wins are counted.
        system_b: The other one.
        pairs: Judgements by question.
    """

    dimension: str
    system_a: str
    system_b: str
    pairs: dict[str, Pair]

    def worths(self, convention: str) -> dict[str, Worth]:
        """Return what each question is worth; questions that do not count are left out."""
        rule = find_convention(convention)
        found = {query_id: rule(pair) for query_id, pair in self.pairs.items()}
        return {query_id: worth for query_id, worth in found.items() if worth is not None}

    def rate(self, convention: str = "strict", seed: int = SEED) -> Rate:
        """Return the win rate of ``system_a``.

        Args:
            convention: ``"strict"``, ``"hirag"`` or ``"debiased"``.
            seed: Seed of the bootstrap.

        Returns:
            Counts, rate and intervals.

        Raises:
            ConfigError: For an unknown convention.
        """
        worths = list(self.worths(convention).values())
        wins, losses = sum(each.wins_a for each in worths), sum(each.wins_b for each in worths)
        units = sum(each.units for each in worths)
        won, lost = sum(e.wins_a > e.wins_b for e in worths), sum(e.wins_a < e.wins_b for e in worths)
        return Rate(
            convention,
            len(worths),
            units,
            wins,
            losses,
            ratio_interval([each.wins_a for each in worths], [each.units for each in worths], seed=seed),
            wilson(wins, units) if units == len(worths) else None,
            sign_test(won, lost),
        )

    @property
    def judgements(self) -> list[Judgement]:
        """All judgements."""
        return [judgement for pair in self.pairs.values() for judgement in pair]

    def consistent(self) -> tuple[int, int]:
        """Return in how many pairs both orders give the same verdict, of how many that have both."""
        both = [pair for pair in self.pairs.values() if sum(each.verdict is not None for each in pair) == 2]
        return sum(pair[0].verdict == pair[1].verdict for pair in both), len(both)

    def first_position(self) -> tuple[int, int]:
        """Return how many judgements the answer shown first won, of how many that were not ties; half is fair."""
        decided = [each for each in self.judgements if each.verdict in ("a", "b")]
        return sum(each.first_won for each in decided), len(decided)

    def counts(self) -> dict[str, int]:
        """Return judgements by what came of them."""
        judgements = self.judgements
        return {
            "judgements": len(judgements),
            "ok": sum(each.status == "ok" for each in judgements),
            "unparsed": sum(each.status == "unparsed" for each in judgements),
            "failed": sum(each.status == "failed" for each in judgements),
            "tied": sum(each.verdict == "tie" for each in judgements),
            "asked again": sum(each.attempts > 1 for each in judgements),
            "truncated": sum(each.truncated for each in judgements),
        }

    def warning(self) -> str | None:
        """Return what to say of a judge whose verdict follows the order of the answers."""
        same, both = self.consistent()
        if not both or same / both >= CONSISTENT_FROM:
            return None
        first, decided = self.first_position()
        position = f"; the answer shown first won {first} of {decided}" if decided else ""
        return (
            f"{self.dimension}, {self.system_a} against {self.system_b}: only {same} of {both} pairs "
            f"({same / both:.0%}) have the same verdict in both orders{position}: the order of the answers decides "
            "more than the answers do"
        )


def tally(judgements: Iterable[Judgement]) -> list[Tally]:
    """Group judgements by pair of systems and dimension.

    Args:
        judgements: Judgements, in any order.

    Returns:
        Tallies in order of first appearance.

    Raises:
        DataError: If an order of a question was judged twice by one dimension.
    """
    grouped: dict[tuple[str, str, str], dict[str, list[Judgement]]] = {}
    for each in judgements:
        group = grouped.setdefault((each.system_a, each.system_b, each.dimension), {})
        pair = group.setdefault(each.query_id, [])
        if any(other.order == each.order for other in pair):
            raise DataError(
                f"question {each.query_id!r} has two judgements of {each.system_a} against {each.system_b} by "
                f"{each.dimension} in order {each.order!r}; expected one an order"
            )
        pair.append(each)
    return [Tally(dimension, a, b, {**pairs}) for (a, b, dimension), pairs in grouped.items()]
