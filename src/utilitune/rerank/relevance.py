"""Which candidates are relevant: what splits UDCG's utility into help and distraction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from utilitune.errors import ConfigError, DataError
from utilitune.records import Dataset, Passage, Query
from utilitune.scoring.answer_match import contains, usable_golds

GAMMA = 1 / 3
"""UDCG's weight of distraction."""
FROM_GRADE = 1.0


@dataclass(frozen=True)
class Relevance:
    """How relevance is told, and what distraction weighs: ``v = u`` where relevant, else ``-gamma u``.

    Attributes:
        source: ``gold`` (judgements of the data set), ``answer`` (the passage contains a gold answer as whole
            words), or the name of a utility among the labels, which needs neither: a reference-free proxy.
        threshold: Grade (``gold``, 1 when ``None``) or utility from which a passage is relevant. A utility's
            ``None``: the best passage of each query, as gains have no scale that queries share.
        gamma: Weight of distraction in [0, 1]; 0 leaves it out.
    """

    source: str = "gold"
    threshold: float | None = None
    gamma: float = GAMMA

    def check(self) -> None:
        """Look at the settings.

        Raises:
            ConfigError: If gamma is outside [0, 1], or ``answer`` has a threshold.
        """
        if not 0 <= self.gamma <= 1:
            raise ConfigError(f"gamma is {self.gamma}; the weight of distraction lies within [0, 1] (UDCG: 1/3)")
        if self.source == "answer" and self.threshold is not None:
            raise ConfigError("relevance 'answer' takes no threshold: a passage contains an answer or does not")

    @property
    def proxy(self) -> str | None:
        """The utility that stands in for relevance, if one does."""
        return None if self.source in SOURCES else self.source

    def signed(self, utility: float, relevant: bool) -> float:
        """Return UDCG's summand of one passage.

        Args:
            utility: u = 1 - P(abstain), in [0, 1].
            relevant: Whether it helps.

        Returns:
            A number in [-gamma, 1].

        Raises:
            DataError: If the utility is outside [0, 1].
        """
        if not 0 <= utility <= 1:
            raise DataError(
                f"a utility is {utility:g}, UDCG's u = 1 - P(abstain) lies within [0, 1]; use labels of 'abstention'"
            )
        return utility if relevant else -self.gamma * utility


def _gold(query: Query, passages: Mapping[str, Passage], dataset: Dataset, threshold: float) -> set[str] | None:
    grades = dataset.qrels.get(query.id)
    return None if grades is None else {pid for pid in passages if grades.get(pid, 0.0) >= threshold}


def _answer(query: Query, passages: Mapping[str, Passage], dataset: Dataset, threshold: float) -> set[str] | None:
    del dataset, threshold
    golds = usable_golds(query.answers)
    return {pid for pid, passage in passages.items() if contains(passage.full_text, golds)} if golds else None


SOURCES: dict[str, Callable[[Query, Mapping[str, Passage], Dataset, float], set[str] | None]] = {
    "gold": _gold,
    "answer": _answer,
}
"""Sources other than a utility: the relevant passages of a query, or ``None`` where nothing says."""


def relevant_passages(
    relevance: Relevance,
    query: Query,
    passages: Mapping[str, Passage],
    dataset: Dataset,
    proxies: Mapping[str, float],
) -> set[str] | None:
    """Return which passages of a query are relevant.

    Args:
        relevance: The rule.
        query: The query.
        passages: Its candidates, by id.
        dataset: Holds the judgements.
        proxies: The proxy utility of candidates, by id; read for no other source.

    Returns:
        Ids, possibly none; ``None`` when the source says nothing of this query (no judgements, no gold
        answers, no proxy utility).
    """
    if relevance.proxy is None:
        threshold = FROM_GRADE if relevance.threshold is None else relevance.threshold
        return SOURCES[relevance.source](query, passages, dataset, threshold)
    known = {pid: proxies[pid] for pid in passages if pid in proxies}
    if not known:
        return None
    threshold = max(known.values()) if relevance.threshold is None else relevance.threshold
    return {pid for pid, value in known.items() if value >= threshold}
