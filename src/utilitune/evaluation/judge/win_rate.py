"""Win rate: whose answers does a judge prefer (arXiv 2503.10150), in both orders, by several dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from utilitune.errors import DataError
from utilitune.evaluation.judge.bradley_terry import BradleyTerry, bradley_terry
from utilitune.evaluation.judge.comparison import Compared, compare_systems
from utilitune.evaluation.judge.convention import CONVENTIONS, find_convention
from utilitune.evaluation.judge.interval import SEED
from utilitune.evaluation.judge.judgement import Judgement
from utilitune.evaluation.judge.judging import RETRIES, judge_pairs
from utilitune.evaluation.judge.tally import Tally, tally
from utilitune.generator.prompt_template import PromptTemplate
from utilitune.generator.protocol import Generator
from utilitune.progress import warn
from utilitune.records.answer import Answer
from utilitune.records.query import Query
from utilitune.records.share import check_share

MAX_LOST = 0.05


@dataclass(frozen=True)
class WinRates:
    """Judgements, counted.

    Attributes:
        judgements: Every judgement, also those without a verdict.
        convention: The convention that the tables show.
        compared: What could not be compared, by kind and system.
        seed: Seed of the intervals.
    """

    judgements: Sequence[Judgement]
    convention: str = "strict"
    compared: Mapping[str, Any] = field(default_factory=dict)
    seed: int = SEED

    @property
    def tallies(self) -> list[Tally]:
        """One tally a pair of systems and dimension."""
        return tally(self.judgements)

    @property
    def counts(self) -> dict[str, int]:
        """Judgements by what came of them."""
        total: Counter[str] = Counter()
        for each in self.tallies:
            total.update(each.counts())
        return dict(total)

    @property
    def warnings(self) -> list[str]:
        """Where the verdict follows the order of the answers (below 60 % the same in both orders)."""
        return [message for each in self.tallies if (message := each.warning()) is not None]

    def strengths(self) -> dict[str, BradleyTerry]:
        """Return the Bradley-Terry table of every dimension; dimensions where nothing counts are left out."""
        dimensions: dict[str, list[Tally]] = {}
        for each in self.tallies:
            if each.worths(self.convention):
                dimensions.setdefault(each.dimension, []).append(each)
        return {name: bradley_terry(found, self.convention, seed=self.seed) for name, found in dimensions.items()}

    def check(self, max_lost: float = MAX_LOST) -> None:
        """Refuse a rate over what happened to be readable.

        Args:
            max_lost: Share of judgements without a verdict that is allowed, in [0, 1].

        Raises:
            ThresholdError: If more are unparsed or failed.
        """
        counts = self.counts
        lost = {"without a verdict": counts.get("unparsed", 0) + counts.get("failed", 0)}
        check_share(lost, "without a verdict", counts.get("judgements", 0), max_lost, "win rate: judgements")

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        rows = []
        for each in self.tallies:
            same, both = each.consistent()
            first, decided = each.first_position()
            rates = [each.rate(name, self.seed) for name in CONVENTIONS]
            rows.append(
                {
                    "dimension": each.dimension,
                    "system_a": each.system_a,
                    "system_b": each.system_b,
                    "rates": [{**asdict(rate), "ties": rate.ties, "win_rate": rate.win_rate} for rate in rates],
                    "order_consistency": {"same": same, "of": both},
                    "first_position": {"wins": first, "of": decided},
                    "counts": each.counts(),
                }
            )
        return {
            "convention": self.convention,
            "compared": dict(self.compared),
            "counts": self.counts,
            "pairs": rows,
            "bradley_terry": {name: asdict(found) for name, found in self.strengths().items()},
            "warnings": self.warnings,
        }


def win_rate(
    systems: Mapping[str, Sequence[Answer]],
    queries: Sequence[Query],
    generator: Generator,
    *,
    dimensions: Sequence[str] | None = None,
    reading: str = "probability",
    convention: str | None = None,
    against: str | None = None,
    prompt: str | PromptTemplate | None = None,
    retries: int = RETRIES,
    store: Path | str | None = None,
    max_lost: float = MAX_LOST,
    seed: int = SEED,
) -> WinRates:
    """Let a judge compare the answers of two or more systems, each pair in both orders.

    Args:
        systems: Answers by system name.
        queries: The questions that they answer; answers are matched by question id.
        generator: The judge.
        dimensions: Of Comprehensiveness, Empowerment, Diversity, Overall; all when ``None``.
        reading: ``"probability"`` (of two letters; any model that scores), ``"letter"`` or ``"json"`` (written; the
            published way is ``"json"``).
        convention: ``"strict"``, ``"hirag"`` (published: wins over parsed judgements) or ``"debiased"`` (the mean
            probability of both orders); ``None`` takes ``"debiased"`` where there are probabilities, else ``"strict"``.
        against: Compare all with this system alone; else every pair.
        prompt: Packaged prompt or prompt file in place of the reading's own.
        retries: How often a reply without a verdict is asked for again.
        store: Response store file, so that a killed run goes on; ``None`` keeps nothing.
        max_lost: Share of judgements without a verdict above which to stop, in [0, 1].
        seed: Seed of the intervals.

    Returns:
        The judgements with their tallies.

    Raises:
        ConfigError: For an unknown name of any kind, or fewer than two systems.
        DataError: If two systems share no question, or a system answers a question twice.
        ThresholdError: If too many judgements have no verdict.
    """
    chosen = default_convention(reading) if convention is None else convention
    find_convention(chosen)
    compared = compare_systems(systems, queries, against=against)
    judgements = judge_pairs(
        compared.comparisons,
        generator,
        dimensions=dimensions,
        reading=reading,
        prompt=prompt,
        retries=retries,
        store=store,
    )
    found = count_judgements(judgements, chosen, compared, seed=seed)
    found.check(max_lost)
    return found


def count_judgements(
    judgements: Sequence[Judgement], convention: str, compared: Compared | None = None, *, seed: int = SEED
) -> WinRates:
    """Count judgements that are there, and say what is wrong with them.

    Args:
        judgements: Of any number of systems and dimensions.
        convention: The convention that the tables show.
        compared: What could not be compared, where that is known.
        seed: Seed of the intervals.

    Returns:
        The tallies.

    Raises:
        ConfigError: For an unknown convention.
        DataError: If there is nothing to count, or an order of a question was judged twice by one dimension.
    """
    find_convention(convention)
    if not judgements:
        raise DataError("no judgements: nothing was compared")
    if convention == "debiased" and all(each.p_a is None for each in judgements):
        raise DataError("no judgement has a probability 'p_a', which the convention 'debiased' averages; use 'strict'")
    left_out: dict[str, Any] = {}
    if compared is not None:
        left_out = {"missing": compared.missing, "unknown": compared.unknown, "identical": compared.identical}
        if any(compared.missing.values()):
            found = ", ".join(f"{name} {count}" for name, count in compared.missing.items() if count)
            warn(f"win rate: questions that others answer and these do not, left out of their pairs: {found}")
    rates = WinRates(judgements, convention, left_out, seed)
    for message in rates.warnings:
        warn(message)
    return rates


def default_convention(reading: str) -> str:
    """Return the convention that goes with a reading."""
    return "debiased" if reading == "probability" else "strict"
