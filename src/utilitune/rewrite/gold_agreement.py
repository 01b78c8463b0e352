"""How often the preferred rewrite also ranks a judged passage higher: the quality of a reward, measured afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from utilitune.records.pair import PreferencePair
from utilitune.rewrite.gold_rank import DEPTH, Judgements, reciprocal_rank
from utilitune.rewrite.reward import TextSearcher


@dataclass(frozen=True)
class GoldAgreement:
    """Pairs whose sides rank the first relevant passage differently.

    Attributes:
        right: Those whose chosen side ranks it higher.
        differ: All of them.
        judged: Pairs of judged questions.
    """

    right: int
    differ: int
    judged: int

    def __str__(self) -> str:
        """Return one line with the 95 % Wilson interval."""
        from utilitune.evaluation.judge.interval import wilson

        if not self.differ:
            return f"none of {self.judged} judged pairs differs in its gold rank"
        interval = wilson(self.right, self.differ)
        within = f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""
        return (
            f"the chosen side ranks the gold passage higher in {self.right / self.differ:.3f}{within} of the "
            f"{self.differ} pairs that differ ({self.judged} judged)"
        )


def gold_agreement(
    pairs: Sequence[PreferencePair], retrievers: Mapping[str, TextSearcher], qrels: Judgements
) -> dict[str, GoldAgreement]:
    """Retrieve with both sides of every judged pair and compare the ranks; nothing is trained on this.

    Args:
        pairs: Preference pairs.
        retrievers: Retrievers by name.
        qrels: Judgements by query id.

    Returns:
        The agreement by retriever; a passage below rank 100 counts as not found.
    """
    judged = [pair for pair in pairs if qrels.get(pair.query_id)]
    sides = [_text(side) for pair in judged for side in (pair.chosen, pair.rejected)]
    texts = {str(number): text for number, text in enumerate(sides)}
    found = {}
    for name, retriever in retrievers.items():
        run = retriever.search_texts(texts, DEPTH)
        right = differ = 0
        for number, pair in enumerate(judged):
            grades = qrels[pair.query_id]
            chosen, rejected = (
                reciprocal_rank([hit for hit, _ in run.get(str(2 * number + side), [])], grades) for side in (0, 1)
            )
            differ += chosen != rejected
            right += chosen > rejected
        found[name] = GoldAgreement(right, differ, len(judged))
    return found


def _text(side: Sequence[Mapping[str, str]]) -> str:
    return " ".join(message["content"] for message in side)
