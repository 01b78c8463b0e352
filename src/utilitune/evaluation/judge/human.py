"""Pairs of answers that people have judged, and a judge measured against them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

from utilitune.errors import DataError
from utilitune.evaluation.judge.agreement import Agreement, agreement
from utilitune.evaluation.judge.comparison import Comparison
from utilitune.evaluation.judge.convention import CONVENTIONS, winner
from utilitune.evaluation.judge.interval import SEED, Interval, ratio_interval, sign_test
from utilitune.evaluation.judge.judgement import Judgement
from utilitune.evaluation.judge.tally import Tally, tally
from utilitune.records.fields import id_field, required, shown, text_field
from utilitune.records.problem import RowError
from utilitune.records.rows import read_records

LABELS = {"A": "a", "B": "b", "tie": "tie"}


@dataclass(frozen=True)
class HumanVerdict:
    """One row ``{"_id", "question", "answer_a", "answer_b", "label": "A" | "B" | "tie"}``.

    Attributes:
        comparison: The two answers, of the systems ``A`` and ``B``.
        verdict: The answer that people prefer.
        group: Value of the field that rows are grouped by, ``""`` without one.
    """

    comparison: Comparison
    verdict: Literal["a", "b", "tie"]
    group: str = ""


@dataclass(frozen=True)
class Agreeing:
    """A judge against people, by one convention.

    Attributes:
        convention: How both orders make one verdict.
        right: Share of what people decided that the judge decides likewise, ties counting half; chance is one half.
        right_of: Rows that people decided and the judge has a verdict on.
        right_interval: 95 % bootstrap interval of ``right`` over rows; too narrow where nearly all are ties.
        p: Two-sided sign test of rows decided rightly against wrongly, exact whatever the number of ties.
        labels: Agreement over all rows on A, B and tie.
    """

    convention: str
    right: float | None
    right_of: int
    right_interval: Interval | None
    p: float
    labels: Agreement


@dataclass(frozen=True)
class HumanAgreement:
    """A judge against people.

    Attributes:
        rows: Rows given.
        human: Rows by human verdict.
        tally: The judge's verdicts.
        conventions: Agreement by each convention that the verdicts allow.
        longer: Share of what people decided that "the longer answer" decides likewise: the baseline to beat.
        longer_of: Rows that people decided.
    """

    rows: int
    human: dict[str, int]
    tally: Tally
    conventions: tuple[Agreeing, ...]
    longer: float | None
    longer_of: int

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the judgements as JSON-ready values."""
        same, both = self.tally.consistent()
        first, decided = self.tally.first_position()
        return {
            "rows": self.rows,
            "human": self.human,
            "counts": self.tally.counts(),
            "order_consistency": {"same": same, "of": both},
            "first_position": {"wins": first, "of": decided},
            "conventions": [asdict(each) for each in self.conventions],
            "longer_answer": {"right": self.longer, "of": self.longer_of},
        }


def read_human_verdicts(path: Path | str, by: str | None = None) -> list[HumanVerdict]:
    """Read pairs of answers with human verdicts.

    Args:
        path: JSONL, gzipped JSONL or Parquet.
        by: Field to group the rows by.

    Returns:
        Rows in file order.

    Raises:
        DataError: If a row is not as documented (lists the first ones as file:line), two share an id, or there is none.
    """

    def parse(row: Mapping[str, Any]) -> HumanVerdict:
        label = required(row, "label")
        if label not in LABELS:
            raise RowError(f"'label' is {shown(label)}; expected one of {', '.join(map(repr, LABELS))}")
        answers = text_field(row, "answer_a"), text_field(row, "answer_b")
        comparison = Comparison(id_field(row, "_id"), text_field(row, "question"), "A", "B", *answers)
        group = "" if by is None else str(required(row, by))
        return HumanVerdict(comparison, cast(Literal["a", "b", "tie"], LABELS[label]), group)

    rows = [row for _, row in read_records(path, parse)]
    ids = [row.comparison.query_id for row in rows]
    if len(set(ids)) < len(ids):
        twice = next(each for each in ids if ids.count(each) > 1)
        raise DataError(f"{path}: the id {twice!r} appears twice; expected each id once")
    if not rows:
        raise DataError(f"{path}: no rows; expected pairs of answers with a human label")
    return rows


def draw(rows: Sequence[HumanVerdict], n: int | None, seed: int = SEED) -> list[HumanVerdict]:
    """Return ``n`` rows drawn without replacement, in file order; all of them when ``n`` is ``None`` or too many."""
    if n is None or n >= len(rows):
        return list(rows)
    return [rows[place] for place in sorted(random.Random(seed).sample(range(len(rows)), n))]


def compare_with_people(
    rows: Sequence[HumanVerdict], judgements: Sequence[Judgement], *, seed: int = SEED
) -> HumanAgreement:
    """Compare a judge's verdicts with people's.

    Args:
        rows: Human verdicts.
        judgements: Of the same pairs, in both orders, by one dimension; those of other pairs are left out.
        seed: Seed of the intervals.

    Returns:
        Agreement by every convention that has a verdict.

    Raises:
        DataError: If no judgement belongs to a row, or they are of several dimensions.
    """
    people = {row.comparison.query_id: row.verdict for row in rows}
    tallies = tally(each for each in judgements if each.query_id in people)
    if len(tallies) != 1:
        raise DataError(
            f"found judgements of {len(tallies)} pairs of systems and dimensions for these rows; expected one"
        )
    found = []
    for name in CONVENTIONS:
        worths = tallies[0].worths(name)
        if not worths:
            continue
        decided = [query_id for query_id in worths if people[query_id] != "tie"]
        right = []
        for query_id in decided:
            worth = worths[query_id]
            wins = worth.wins_a if people[query_id] == "a" else worth.wins_b
            right.append((wins + worth.ties / 2) / worth.units)
        labels = agreement([winner(worth) for worth in worths.values()], [people[each] for each in worths], seed=seed)
        mean = sum(right) / len(right) if right else None
        interval = ratio_interval(right, [1] * len(right), seed=seed)
        p = sign_test(sum(each > 0.5 for each in right), sum(each < 0.5 for each in right))
        found.append(Agreeing(name, mean, len(right), interval, p, labels))
    longer = [_longer(row) for row in rows if row.verdict != "tie"]
    return HumanAgreement(
        rows=len(rows),
        human={label: sum(row.verdict == verdict for row in rows) for label, verdict in LABELS.items()},
        tally=tallies[0],
        conventions=tuple(found),
        longer=sum(longer) / len(longer) if longer else None,
        longer_of=len(longer),
    )


def by_group(
    rows: Sequence[HumanVerdict], judgements: Sequence[Judgement], *, seed: int = SEED
) -> dict[str, HumanAgreement]:
    """Compare a judge with people over all rows, then group by group.

    Args:
        rows: Human verdicts.
        judgements: As for ``compare_with_people``.
        seed: Seed of the intervals.

    Returns:
        ``"(all)"`` first, then each group by name where there is more than one.
    """
    found = {"(all)": compare_with_people(rows, judgements, seed=seed)}
    groups = sorted({row.group for row in rows})
    for name in groups if len(groups) > 1 else ():
        found[name] = compare_with_people([row for row in rows if row.group == name], judgements, seed=seed)
    return found


def _longer(row: HumanVerdict) -> float:
    a, b = len(row.comparison.answer_a), len(row.comparison.answer_b)
    return 0.5 if a == b else float((a > b) == (row.verdict == "a"))
