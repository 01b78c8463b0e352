"""The position study: one relevant passage moved through a list of distractors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from utilitune.errors import ConfigError
from utilitune.evaluation.classical import classical
from utilitune.evaluation.clusters import Clusters
from utilitune.evaluation.measures import parse_measures
from utilitune.evaluation.significance import SEED
from utilitune.evaluation.study.correlation.rank import Draws, Estimate, estimate, numbered, share
from utilitune.evaluation.study.correlation.reader import Item, Reader, key_of
from utilitune.evaluation.study.signal_cases import SignalCase, SignalCases, choose_cases
from utilitune.records.dataset import Dataset

MEASURES = {"nDCG": "nDCG", "MAP": "AP", "MRR": "RR", "Precision": "P"}


@dataclass(frozen=True)
class Position:
    """What happens with the relevant passage at one place.

    Attributes:
        place: Its place, from 1.
        right: Share of right answers.
        abstained: Share of abstentions.
        metrics: nDCG, MAP, MRR and Precision of such a list: the same for every question.
    """

    place: int
    right: Estimate
    abstained: Estimate
    metrics: dict[str, float]


@dataclass(frozen=True)
class PositionStudy:
    """What ``study_position`` returns.

    Attributes:
        length: Passages a list: one relevant, the others hard distractors without the answer.
        questions: Questions whose answer is known at every place.
        positions: One a place.
        ends: Share of right answers with the passage first or last, less that in the middle third of the list, by
            question: above 0 where accuracy is U-shaped.
        spearman: ρ of right answers with nDCG over questions and places; MAP and MRR order these lists alike.
        counts: Questions that were left out, by kind.
    """

    length: int
    questions: int
    positions: tuple[Position, ...]
    ends: Estimate
    spearman: Estimate
    counts: dict[str, int]


def position_cases(dataset: Dataset, length: int, *, seed: int = SEED, level: float = 1.0) -> SignalCases:
    """Choose the relevant passage of each question and the distractors that it is moved through.

    Args:
        dataset: Corpus, questions with gold answers, judgements.
        length: Passages a list, >= 2.
        seed: Seed of the order.
        level: Grade from which a passage is relevant.

    Returns:
        Cases of the signal study: hard BM25 distractors, never judged above 0 and without a gold answer.

    Raises:
        ConfigError: If ``length`` is below 2.
        DataError: If no question has a relevant passage and a distractor.
    """
    if length < 2:
        raise ConfigError(f"position: length is {length}; expected at least 2 passages to move one through")
    return choose_cases(dataset, distractors=length - 1, random=0, seed=seed, relevant_from=level)


def study_position(
    chosen: SignalCases, reader: Reader, *, length: int, seed: int = SEED, clusters: Clusters | None = None
) -> PositionStudy:
    """Move a relevant passage through a list and see what the generator makes of it.

    Distractors keep their order, best first. A question with too few of them is left out.

    Args:
        chosen: What ``position_cases`` chose for this length.
        reader: Asks the generator.
        length: Passages a list, >= 2.
        seed: Seed of the intervals.
        clusters: Conversation of each question, drawn whole; each for itself when ``None``.

    Returns:
        Accuracy by place, beside the metrics that discount by place.
    """
    full = [case for case in chosen.cases if len(case.hard) == length - 1]
    asked = [[_list(case, place) for place in range(length)] for case in full]
    reader.read([item for lists in asked for item in lists])
    known = [lists for lists in asked if all(key_of(item) in reader.outcomes for item in lists)]
    right = [[reader.outcomes[key_of(item)].right for item in lists] for lists in known]
    abstained = [[reader.outcomes[key_of(item)].abstained for item in lists] for lists in known]
    ids = [lists[0][0].id for lists in known]
    metrics = position_metrics(length)
    positions = tuple(
        Position(
            place + 1,
            share([row[place] for row in right], seed, ids=ids, clusters=clusters),
            share([row[place] for row in abstained], seed, ids=ids, clusters=clusters),
            {name: values[place] for name, values in metrics.items()},
        )
        for place in range(length)
    )
    counts = {
        **{f"position: {kind}": count for kind, count in chosen.counts.items() if kind.startswith("distractors")},
        "position: questions with too few distractors": len(chosen.cases) - len(full),
        "position: questions with an answer missing": len(full) - len(known),
    }
    numbers = numbered(ids, clusters)
    draws = Draws(len(set(numbers.values())), seed=seed)
    rho = draws.correlate(
        [metrics["nDCG"][place] for _ in known for place in range(length)],
        [flag for row in right for flag in row],
        [numbers[query_id] for query_id in ids for _ in range(length)],
    ).spearman
    ends = [_ends_less_middle(row) for row in right] if length > 2 else []
    middle = share(ends, seed, ids=ids if ends else (), clusters=clusters)
    return PositionStudy(length, len(known), positions, middle, estimate(rho), counts)


def position_metrics(length: int) -> dict[str, list[float]]:
    """Return the metrics of a list whose one relevant passage stands at each place.

    Args:
        length: Passages a list, >= 1.

    Returns:
        ``{metric: [value at place 1, ...]}``.
    """
    order = {
        str(place): ["gold" if rank == place else f"other {rank}" for rank in range(length)] for place in range(length)
    }
    measures = parse_measures([f"{family}@{length}" for family in MEASURES.values()])
    found = classical(order, {query_id: {"gold": 1.0} for query_id in order}, measures, 1.0)
    return {
        name: [found[f"{family}@{length}"][str(place)] for place in range(length)] for name, family in MEASURES.items()
    }


def _list(case: SignalCase, place: int) -> Item:
    return case.query, (*case.hard[:place], case.gold, *case.hard[place:])


def _ends_less_middle(row: Sequence[bool]) -> float:
    third = max(1, len(row) // 3)
    start = (len(row) - third) // 2
    return fmean([row[0], row[-1]]) - fmean(row[start : start + third])
