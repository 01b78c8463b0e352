"""What a signal study found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from utilitune.evaluation.significance import Significance
from utilitune.evaluation.study.separation import Separation
from utilitune.evaluation.study.signal_cases import Role
from utilitune.evaluation.study.signal_measures import ReciprocalRank, Share


@dataclass(frozen=True)
class UtilitySignal:
    """How good one utility is as a label.

    Attributes:
        name: Name of the utility.
        hard: Share of hard BM25 distractors that the gold passage beats.
        random: Share of random passages that it beats.
        rank: Reciprocal rank of the gold passage among all candidates.
        gold: How well the utility separates gold passages from all others.
        right: How well it separates passages from which the generator answers right from the others.
        versus_first: Share over hard distractors against that of the study's first utility, by question; ``None``
            for the first.
        p_holm: ``hard.p``, Holm-corrected over the utilities of the study.
        n: Labels with a number.
        mean: Mean of the utility, ``None`` without numbers.
        std: Standard deviation (population), ``None`` without numbers.
        left_out: Labels without a number, by status (``failed``, ``invalid``, ``skipped``).
        questions_left_out: Questions whose gold passage has no number.
    """

    name: str
    hard: Share
    random: Share
    rank: ReciprocalRank
    gold: Separation
    right: Separation
    versus_first: Significance | None
    p_holm: float
    n: int
    mean: float | None
    std: float | None
    left_out: dict[str, int]
    questions_left_out: int


@dataclass(frozen=True)
class PairRow:
    """One (question, passage) of the study.

    Attributes:
        query_id: The question.
        role: ``gold``, ``hard`` or ``random``.
        place: Place among those of its role, from 1.
        passage_id: The passage.
        right: Whether the generator's answer from this passage is right; ``None`` where that is unknown.
        utilities: Utility -> number, where there is one.
    """

    query_id: str
    role: Role
    place: int
    passage_id: str
    right: bool | None
    utilities: dict[str, float]


@dataclass(frozen=True)
class Timing:
    """What labelling took.

    Attributes:
        seconds: Wall time of labelling with all utilities together; loading the model is not in it, unless the store's
            file was there before.
        pairs: (question, passage) pairs.
        computed: Responses that the generator computed.
        from_store: Responses that the store had: these are not timed.
        seconds_a_pair: ``seconds / pairs``; ``None`` where more than 1 % came from the store.
    """

    seconds: float
    pairs: int
    computed: int
    from_store: int
    seconds_a_pair: float | None


@dataclass(frozen=True)
class SignalStudy:
    """What ``study_signal`` returns.

    Attributes:
        signals: One a utility, in the order asked for.
        pairs: Every (question, passage) with its numbers.
        counts: What was studied, left out, tied and fell short, by kind.
        timing: Wall time.
        notes: What a reader must know.
        manifest: Everything that made the numbers.
    """

    signals: list[UtilitySignal]
    pairs: list[PairRow]
    counts: dict[str, int]
    timing: Timing
    notes: list[str]
    manifest: dict[str, Any]

    def signal(self, name: str) -> UtilitySignal:
        """Return the signal of one utility.

        Args:
            name: Name of the utility.

        Returns:
            Its signal.

        Raises:
            KeyError: If it was not studied.
        """
        for signal in self.signals:
            if signal.name == name:
                return signal
        raise KeyError(f"{name!r} was not studied; these were: {', '.join(each.name for each in self.signals)}")

    def values(self, name: str, role: Role) -> list[float]:
        """Return the numbers of one utility over the passages of one role."""
        return [row.utilities[name] for row in self.pairs if row.role == role and name in row.utilities]

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the pairs, JSON-ready."""
        return {
            "utilities": [asdict(signal) for signal in self.signals],
            "counts": self.counts,
            "timing": asdict(self.timing),
            "notes": self.notes,
            "manifest": self.manifest,
        }
