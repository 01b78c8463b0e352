"""How often the preferred rewrite also ranks a judged passage higher: the quality of a reward, measured afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from utilitune.records.pair import PreferencePair
from utilitune.rewrite.gold_rank import DEPTH, Judgements, reciprocal_rank
from utilitune.rewrite.reward import TextSearcher


@dataclass(frozen=True)
class GoldAgreement:
    """Pairs whose sides rank the first relevant passage differently.

    Attributes:
        groups: ``(right, differ)`` of each cluster of questions with such pairs (a conversation; else one question):
            those whose chosen side ranks it higher, all.
        judged: Pairs of judged questions.
        questions: Questions with such pairs.
        unit: What a group is.
    """

    groups: tuple[tuple[int, int], ...]
    judged: int
    questions: int
    unit: str = "question"

    @property
    def right(self) -> int:
        """Pairs whose chosen side ranks the passage higher."""
        return sum(right for right, _ in self.groups)

    @property
    def differ(self) -> int:
        """Pairs whose sides rank it differently."""
        return sum(differ for _, differ in self.groups)

    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of ``right / differ``; ``None`` without pairs.

        Wilson's where a group has one pair. Several pairs of a question share candidates, and questions of a
        conversation their topic: they are no independent evidence. Then the bootstrap over groups, or Wilson's with a
        group as one where all pairs are alike.
        """
        from utilitune.evaluation.judge.interval import ratio_interval, wilson

        n = len(self.groups)
        if self.differ == n or self.right in (0, self.differ):
            return wilson(round(n * self.right / self.differ) if n else 0, n)
        return ratio_interval(*zip(*self.groups, strict=True))

    def __str__(self) -> str:
        """Return one line with the interval."""
        if not self.differ:
            return f"none of {self.judged} judged pairs differs in its gold rank"
        interval = self.interval()
        within = f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""
        of = f" of {len(self.groups)} {self.unit}s" if self.unit != "question" else ""
        return (
            f"the chosen side ranks the gold passage higher in {self.right / self.differ:.3f}{within} of the "
            f"{self.differ} pairs that differ ({self.questions} questions{of}; {self.judged} pairs judged)"
        )


def gold_agreement(
    pairs: Sequence[PreferencePair],
    retrievers: Mapping[str, TextSearcher],
    qrels: Judgements,
    clusters: Mapping[str, str] | None = None,
) -> dict[str, GoldAgreement]:
    """Retrieve with both sides of every judged pair and compare the ranks; nothing is trained on this.

    Args:
        pairs: Preference pairs.
        retrievers: Retrievers by name.
        qrels: Judgements by query id.
        clusters: Conversation of each question (``find_clusters``), which the interval takes whole; each question by
            itself when not given.

    Returns:
        The agreement by retriever; a passage below rank 100 counts as not found.

    Raises:
        DataError: If a judged question has no cluster.
    """
    from utilitune.evaluation.clusters import check_covered

    judged = [pair for pair in pairs if qrels.get(pair.query_id)]
    if clusters is not None:
        check_covered([pair.query_id for pair in judged], clusters)
    sides = [_text(side) for pair in judged for side in (pair.chosen, pair.rejected)]
    texts = {str(number): text for number, text in enumerate(sides)}
    found = {}
    for name, retriever in retrievers.items():
        run = retriever.search_texts(texts, DEPTH)
        right: Counter[str] = Counter()
        differ: Counter[str] = Counter()
        questions: set[str] = set()
        for number, pair in enumerate(judged):
            grades = qrels[pair.query_id]
            chosen, rejected = (
                reciprocal_rank([hit for hit, _ in run.get(str(2 * number + side), [])], grades) for side in (0, 1)
            )
            group = pair.query_id if clusters is None else clusters[pair.query_id]
            differ[group] += chosen != rejected
            right[group] += chosen > rejected
            if chosen != rejected:
                questions.add(pair.query_id)
        groups = tuple((right[group], count) for group, count in differ.items() if count)
        unit = "question" if clusters is None else "conversation"
        found[name] = GoldAgreement(groups, len(judged), len(questions), unit)
    return found


def _text(side: Sequence[Mapping[str, str]]) -> str:
    return " ".join(message["content"] for message in side)
