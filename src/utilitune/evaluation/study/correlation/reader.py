"""What the generator answers from passage lists, asked once a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from utilitune.evaluation.answers import is_abstention
from utilitune.evaluation.study.signal import answer_judge
from utilitune.generator.protocol import Generation, Generator
from utilitune.records.answer import Answer
from utilitune.records.label import Labels, UtilityLabel
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.scoring.answer_match import ANSWER_MEASURES, usable_golds
from utilitune.scoring.evidence import answers_in
from utilitune.scoring.labelling import CHUNK_ITEMS, MAX_FAILED, label_sets
from utilitune.scoring.protocol import Utility

Item = tuple[Query, tuple[Passage, ...]]
Key = tuple[str, tuple[str, ...]]
"""Question id, passage ids in prompt order."""


@dataclass(frozen=True)
class Outcome:
    """What became of one list.

    Attributes:
        answer: The answer.
        right: Whether it is right; an abstention is not.
    """

    answer: Answer
    right: bool

    @property
    def abstained(self) -> bool:
        """Whether the generator abstained."""
        return self.answer.abstained


@dataclass
class Reader:
    """Asks the generator for answers, each list once, and judges them by their gold answers.

    Attributes:
        generator: The LLM.
        measure: When an answer is right: ``"contains"`` or ``"EM"``, any gold answer.
        prompt: Packaged prompt or prompt file.
        store: Label store file, ``None`` keeps nothing.
        max_failed: Share of failed labels above which to stop, in [0, 1].
        outcomes: Everything answered so far.
        failed: Lists without an answer.
        counts: What labelling counted, added up: responses computed, from the store, passages shortened, …
        label_sets: Label sets that were read, as manifests name them.
        warnings: What labelling warned of, by label set.
    """

    generator: Generator
    measure: str = "contains"
    prompt: str = "answer-abstain"
    store: Path | str | None = None
    max_failed: float = MAX_FAILED
    outcomes: dict[Key, Outcome] = field(default_factory=dict)
    failed: set[Key] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    label_sets: dict[str, object] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)

    def know(self, answers: Iterable[Answer], queries: Iterable[Query]) -> int:
        """Take answers that were given before, which are not asked for again.

        Args:
            answers: Answers of this generator to this prompt.
            queries: The questions; answers to others are left aside.

        Returns:
            How many were taken.
        """
        golds = {query.id: usable_golds(query.answers) for query in queries}
        before = len(self.outcomes)
        for answer in answers:
            if golds.get(answer.query_id):
                self.outcomes[answer.query_id, answer.passage_ids] = self._judged(answer, golds[answer.query_id])
        return len(self.outcomes) - before

    def read(self, items: Sequence[Item], utilities: Sequence[Utility] = ()) -> Labels:
        """Answer from every list that has no answer yet, and label every list.

        Args:
            items: Questions with gold answers and their passages; those of one question stand together.
            utilities: What to label all of them with.

        Returns:
            The labels, without those of the answers; empty without utilities.

        Raises:
            ThresholdError: If too many labels failed.
        """
        judge = answer_judge(self.measure, self.prompt)
        distinct = list({key_of(item): item for item in items}.values())
        unknown = [item for item in distinct if key_of(item) not in self.outcomes]
        # Together where both are wanted, so that a prompt is read once for both.
        calls = (
            [(distinct, [*utilities, judge])] if unknown and utilities else [(unknown, [judge]), (distinct, utilities)]
        )
        found: list[UtilityLabel] = []
        for asked, wanted in calls:
            if asked and wanted:
                labels = label_sets(
                    asked,
                    wanted,
                    self.generator,
                    store=self.store,
                    chunk_items=_chunk_items(asked),
                    max_failed=self.max_failed,
                )
                self._note(labels)
                self._keep([row for row in labels if row.name == judge.name], {item[0].id: item[0] for item in asked})
                found += [row for row in labels if row.name != judge.name]
        return Labels(found)

    def _keep(self, rows: Sequence[UtilityLabel], queries: Mapping[str, Query]) -> None:
        for row in rows:
            key = (row.query_id, row.passage_ids)
            said = next(iter(answers_in(row.evidence).values()), None)
            if row.status != "ok" or said is None:
                self.failed.add(key)
            elif key not in self.outcomes:
                text = said.text.strip()
                mean = sum(said.logprobs) / len(said.logprobs) if said.logprobs else None
                cut = isinstance(said, Generation) and said.finish == "length"
                answer = Answer(*key, text, is_abstention(text), mean, cut)
                self.outcomes[key] = self._judged(answer, usable_golds(queries[row.query_id].answers))

    def _judged(self, answer: Answer, golds: Sequence[str]) -> Outcome:
        right = not answer.abstained and ANSWER_MEASURES[self.measure](answer.answer, golds) > 0
        return Outcome(answer, right)

    def _note(self, labels: Labels) -> None:
        self.counts.update(labels.manifest["counts"])
        self.label_sets.update(labels.manifest["label_sets"])
        self.warnings.update(labels.manifest["warnings"])


def _chunk_items(items: Sequence[Item]) -> int:
    """Return how many lists a commit is worth: the longer they are, the fewer, as a kill costs the last chunk."""
    passages = sum(len(passages) for _, passages in items)
    return max(1, CHUNK_ITEMS * len(items) // max(passages, len(items)))


def key_of(item: Item) -> Key:
    """Return the ids of a question and its passages."""
    query, passages = item
    return query.id, tuple(passage.id for passage in passages)
