"""Training groups: one query, its candidate passages, what each was worth, and the targets made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from utilitune.rerank.relevance import Relevance
from utilitune.rerank.rescale import rescale


@dataclass(frozen=True)
class Group:
    """The candidates of one query.

    Attributes:
        query_id: The query.
        query: Its text as the reranker reads it.
        passage_ids: Candidates, in first-stage order.
        passages: Their texts (title and body).
        utilities: One finite number a candidate; of several utilities the mean of their z-scores; signed
            (negative for distractors) where relevance is known.
        targets: What the loss is given, one a candidate.
        conversation: Unit of the train/dev split; turns of one conversation never fall on both sides.
    """

    query_id: str
    query: str
    passage_ids: tuple[str, ...]
    passages: tuple[str, ...]
    utilities: tuple[float, ...]
    targets: tuple[float, ...]
    conversation: str = ""

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self.passage_ids)


@dataclass(frozen=True)
class Groups(Sequence[Group]):
    """Groups with an account of what did not become one.

    Attributes:
        groups: The groups, in query order of the labels.
        drops: Counts by kind: label rows not used, candidates merged or left out, queries dropped.
        rule: Rescaling rule of the targets.
        temperature: Its temperature.
        label_sets: The label sets that the utilities came from.
        relevance: What the utilities were signed by, if anything.
    """

    groups: list[Group]
    drops: dict[str, int] = field(default_factory=dict)
    rule: str = "min-max"
    temperature: float = 1.0
    label_sets: tuple[str, ...] = ()
    relevance: Relevance | None = None

    def __getitem__(self, index: int | slice) -> Group | list[Group]:  # type: ignore[override]
        """Return a group, or groups for a slice."""
        return self.groups[index]

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.groups)

    def __iter__(self) -> Iterator[Group]:
        """Iterate over the groups."""
        return iter(self.groups)

    @property
    def pairs(self) -> int:
        """Number of (query, passage) pairs."""
        return sum(group.size for group in self.groups)

    def rescaled(self, rule: str, temperature: float = 1.0) -> Groups:
        """Return the same groups with targets made from the utilities by another rule.

        Args:
            rule: A name in ``RESCALES``.
            temperature: For ``softmax``, > 0.

        Returns:
            New groups; utilities are untouched.
        """
        groups = [replace(group, targets=rescale(group.utilities, rule, temperature)) for group in self.groups]
        return replace(self, groups=groups, rule=rule, temperature=temperature)

    def account(self) -> dict[str, Any]:
        """Return what the targets are made of, JSON-ready."""
        return {
            "rescale": self.rule,
            "temperature": self.temperature,
            "label_sets": list(self.label_sets),
            "relevance": None if self.relevance is None else asdict(self.relevance),
        }
