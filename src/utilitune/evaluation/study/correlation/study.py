"""What a correlation study found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from utilitune.evaluation.study.correlation.ideal import IdealStudy
from utilitune.evaluation.study.correlation.position import PositionStudy
from utilitune.evaluation.study.correlation.rank import Estimate
from utilitune.evaluation.study.correlation.ranked_list import RankedList
from utilitune.evaluation.udcg_theta import UdcgTheta
from utilitune.records.answer import Answer
from utilitune.records.label import Labels

POOLED = "all"
"""Name of the block that pools the lists of all systems."""


@dataclass(frozen=True)
class Versus:
    """ρ of a metric against that of another one, over the lists that both have.

    Attributes:
        difference: ρ less the other's, paired interval.
        relative: ρ over the other's, less 1; ``None`` where ρ is not above 0, or the other's interval not: a ratio to
            what may be nothing says nothing.
    """

    difference: Estimate
    relative: float | None


@dataclass(frozen=True)
class Correlation:
    """How well one metric predicts whether the answer is right.

    Attributes:
        metric: Name of the metric.
        system: What found the passages, or ``POOLED``.
        k: Passages a list; ``None`` for the mean over all list lengths that have a number.
        n: Lists with a number of the metric; for the mean, over all lengths.
        questions: Their questions.
        right: Lists among them whose answer is right.
        spearman: Spearman's ρ, in [-1, 1].
        kendall: Kendall's τ-b, in [-1, 1].
        versus: Against nDCG and UDCG, by name; a metric is not compared with itself.
        undefined: Why there is no number; empty where there is one.
        lengths: List lengths behind the number; none where it is undefined.
    """

    metric: str
    system: str
    k: int | None
    n: int
    questions: int
    right: int
    spearman: Estimate
    kendall: Estimate
    versus: dict[str, Versus]
    undefined: str
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Timing:
    """What one part of the study took.

    Attributes:
        seconds: Wall time; loading the model is in the first part.
        questions: Questions of the study.
        computed: Responses that the generator computed.
        from_store: Responses that the store had.
    """

    seconds: float
    questions: int
    computed: int
    from_store: int


@dataclass(frozen=True)
class CorrelationStudy:
    """What ``study_correlation`` returns.

    Attributes:
        correlations: One a system (and all pooled), metric and list length, and one for the mean over lengths.
        metrics: Metric names, in the order of the tables.
        systems: What found the passages.
        ks: List lengths.
        lists: Every list with its metrics and outcome.
        accuracy: ``{system: {k: (right, abstained, lists)}}``.
        position: The relevant passage moved through the list; ``None`` where it was not asked for.
        ideal: What the generator makes of the best lists by several rules; ``None`` where it was not asked for.
        theta: ``{k: UDCGθ}`` fitted on all lists of a length: to use on other data, never measured here.
        theta_by_chance: Mean ρ of UDCGθ when answers are dealt to other questions, and between which values it was.
        labels: Utilities of every passage.
        answers: Every answer, of single passages, lists, positions and ideal rankings.
        counts: What was studied, left out and fell short, by kind.
        timing: Wall time by part.
        notes: What a reader must know.
        manifest: Everything that made the numbers.
    """

    correlations: list[Correlation]
    metrics: list[str]
    systems: list[str]
    ks: list[int]
    lists: list[RankedList]
    accuracy: dict[str, dict[int, tuple[int, int, int]]]
    position: PositionStudy | None
    ideal: IdealStudy | None
    theta: dict[int, UdcgTheta]
    theta_by_chance: Estimate
    labels: Labels
    answers: list[Answer]
    counts: dict[str, int]
    timing: dict[str, Timing]
    notes: list[str] = field(default_factory=list)
    manifest: dict[str, Any] = field(default_factory=dict)

    def correlation(self, metric: str, k: int | None = None, system: str | None = None) -> Correlation:
        """Return one correlation.

        Args:
            metric: Name of the metric.
            k: List length; ``None`` for the mean over all.
            system: What found the passages; all pooled (or the only one) when ``None``.

        Returns:
            The correlation.

        Raises:
            KeyError: If there is none.
        """
        block = system or self.blocks[0]
        for each in self.correlations:
            if (each.metric, each.k, each.system) == (metric, k, block):
                return each
        raise KeyError(
            f"no correlation of {metric!r} at k {k} for {block!r}; metrics: {', '.join(self.metrics)}; k: "
            f"{', '.join(map(str, self.ks))}; systems: {', '.join(self.blocks)}"
        )

    @property
    def blocks(self) -> list[str]:
        """Blocks of the tables: all systems pooled, then each; the only one alone."""
        return [POOLED, *self.systems] if len(self.systems) > 1 else self.systems

    def as_dict(self) -> dict[str, Any]:
        """Return everything but lists, labels and answers, JSON-ready."""
        return {
            "correlations": [asdict(each) for each in self.correlations],
            "accuracy": {
                system: {str(k): dict(zip(("right", "abstained", "lists"), own, strict=True)) for k, own in ks.items()}
                for system, ks in self.accuracy.items()
            },
            "position": None if self.position is None else asdict(self.position),
            "ideal": None if self.ideal is None else asdict(self.ideal),
            "theta": {str(k): asdict(fitted) for k, fitted in self.theta.items()},
            "theta_by_chance": asdict(self.theta_by_chance),
            "counts": self.counts,
            "timing": {part: asdict(timing) for part, timing in self.timing.items()},
            "notes": self.notes,
            "manifest": self.manifest,
        }
