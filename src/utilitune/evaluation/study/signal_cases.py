"""Cases of a signal study: a question, its gold passage, and the passages that the gold one has to beat."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.classical import is_fractional
from utilitune.progress import progress, warn
from utilitune.records.dataset import Dataset
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.retrieval.bm25 import Bm25Retriever
from utilitune.scoring.answer_match import contains, usable_golds

SEED = 13
DISTRACTORS, RANDOM = 4, 1
LOOKED_AT = 100
"""Passages looked at beyond those wanted, before a case goes without."""
Role = Literal["gold", "hard", "random"]
OF_GOLD_TEXT = "distractors left out: text of a gold passage"
WITH_ANSWER = "distractors left out: contain a gold answer"
SHORT = ("questions with fewer hard distractors than asked for", "questions with fewer random passages than asked for")
NOTHING = "questions without a passage to compare"


@dataclass(frozen=True)
class SignalCase:
    """One question with its candidates.

    Attributes:
        query: The question.
        gold: Its gold passage.
        hard: Distractors that BM25 ranks highest, best first.
        random: Passages drawn at random.
    """

    query: Query
    gold: Passage
    hard: tuple[Passage, ...]
    random: tuple[Passage, ...]

    def candidates(self) -> Iterator[tuple[Role, Passage]]:
        """Yield every candidate with its role: the gold passage, then hard, then random ones."""
        yield "gold", self.gold
        for passage in self.hard:
            yield "hard", passage
        for passage in self.random:
            yield "random", passage


@dataclass(frozen=True)
class SignalCases:
    """What ``choose_cases`` returns.

    Attributes:
        cases: The cases, in seeded order.
        counts: What was used, left out and fell short, by kind.
        facts: Hashes of corpus and cases, settings of BM25: for the manifest.
    """

    cases: list[SignalCase]
    counts: dict[str, int]
    facts: dict[str, Any]


def choose_cases(
    dataset: Dataset,
    *,
    distractors: int = DISTRACTORS,
    random: int = RANDOM,
    limit: int | None = None,
    seed: int = SEED,
    allow_answers: bool = False,
    relevant_from: float | None = None,
) -> SignalCases:
    """Choose the candidates of every question that has a gold passage in the corpus.

    The gold passage is the first relevant one in the order of the judgements. No passage that is judged above 0,
    or that has a gold passage's text, is ever a distractor. BM25 searches with the human rewrite of a
    conversational turn, else with its first and last question. Order, random passages and ``limit`` depend on
    ``seed`` and texts alone: neither ids nor the order of files matter, and a larger limit extends a smaller one.

    Args:
        dataset: Corpus, questions and judgements.
        distractors: Hard distractors a question, >= 0.
        random: Random passages a question, >= 0.
        limit: Questions at most; all when ``None``.
        seed: Seed of order and random passages.
        allow_answers: Whether a distractor's text may contain a gold answer; else such passages are left out and
            counted.
        relevant_from: Grade from which a passage is gold; 1 unless given, and to be given for fractional grades.

    Returns:
        Cases and counts.

    Raises:
        ConfigError: If nothing is to be compared, a number is out of range, or fractional grades come without
            ``relevant_from``.
        DataError: If no question has a gold passage in the corpus and another passage beside it.
    """
    if min(distractors, random) < 0 or distractors + random < 1 or (limit is not None and limit < 1):
        raise ConfigError(
            f"distractors is {distractors}, random {random}, limit {limit}; expected at least one distractor or "
            "random passage, and a limit of at least 1"
        )
    counts: Counter[str] = Counter(questions=len(dataset.queries))
    judged = _judged(dataset, _level(dataset, relevant_from), counts)
    judged.sort(key=lambda each: (draw(seed, content(each[0])), each[0].id))
    counts["questions beyond the limit"] = max(0, len(judged) - (limit or len(judged)))
    judged = judged[:limit]
    counts["gold passages beside the first, never distractors"] = sum(len(golds) - 1 for _, golds in judged)
    retriever = Bm25Retriever.build(dataset.corpus)
    corpus = dataset.passages()
    depth = distractors + LOOKED_AT + max(len(dataset.qrels[query.id]) for query, _ in judged)
    run = retriever.search_texts({query.id: query.rewrite or query.first_and_last for query, _ in judged}, depth)
    shuffled = sorted(dataset.corpus, key=lambda passage: draw(seed, passage.full_text))
    counts.update(dict.fromkeys((OF_GOLD_TEXT, WITH_ANSWER, *SHORT, NOTHING), 0))
    cases: list[SignalCase] = []
    with progress("choose", len(judged), "questions") as bar:
        for query, golds in judged:
            barred = _Barred(query, golds, dataset.qrels[query.id], allow_answers, counts)
            ranked = (corpus[passage_id] for passage_id, _ in run[query.id])
            hard = tuple(islice(filter(barred.allows, ranked), distractors))
            barred.ids.update(passage.id for passage in hard)
            start = int(draw(seed, "random", content(query)), 16) % len(shuffled)
            turn = ((start + step) % len(shuffled) for step in range(min(len(shuffled), random + LOOKED_AT)))
            drawn = tuple(islice(filter(barred.allows, (shuffled[place] for place in turn)), random))
            counts[SHORT[0]] += len(hard) < distractors
            counts[SHORT[1]] += len(drawn) < random
            if hard or drawn:
                cases.append(SignalCase(query, golds[0], hard, drawn))
            else:
                counts[NOTHING] += 1
            bar.advance()
    return _checked(cases, counts, {"corpus_sha256": retriever.corpus_sha256, "bm25": retriever.settings})


class _Barred:
    """Which passages cannot be a distractor of one question; counts why."""

    def __init__(
        self,
        query: Query,
        golds: Sequence[Passage],
        grades: Mapping[str, float],
        allow_answers: bool,
        counts: Counter[str],
    ) -> None:
        self.ids = {passage_id for passage_id, grade in grades.items() if grade > 0} | {gold.id for gold in golds}
        self.texts = {gold.text for gold in golds}
        self.answers = [] if allow_answers else usable_golds(query.answers)
        self.counts = counts

    def allows(self, passage: Passage) -> bool:
        if passage.id in self.ids:
            return False
        if passage.text in self.texts:
            why = OF_GOLD_TEXT
        elif self.answers and contains(passage.full_text, self.answers):
            why = WITH_ANSWER
        else:
            return True
        # Looked at once more among the random ones, it is not counted again.
        self.ids.add(passage.id)
        self.counts[why] += 1
        return False


def _level(dataset: Dataset, relevant_from: float | None) -> float:
    if not dataset.qrels:
        raise DataError(
            f"{dataset.name or 'the data'}: no judgements for these questions; a signal study needs to know the gold "
            "passages: give qrels.tsv (query-id, corpus-id, score)"
        )
    if relevant_from is None and is_fractional(dataset.qrels):
        raise ConfigError(
            "the judgements hold fractional grades, and a signal study must know which passages are gold; pass "
            "relevant_from=<grade>, or --relevant-from <grade> on the command line"
        )
    # At 0 or below, passages that were judged worthless would be gold.
    if relevant_from is not None and not 0 < relevant_from < math.inf:
        raise ConfigError(f"relevant_from (--relevant-from) is {relevant_from}; expected a grade above 0")
    return 1.0 if relevant_from is None else relevant_from


def _judged(dataset: Dataset, level: float, counts: Counter[str]) -> list[tuple[Query, list[Passage]]]:
    corpus = dataset.passages()
    found = []
    for query in dataset.queries:
        ids = [passage_id for passage_id, grade in dataset.qrels.get(query.id, {}).items() if grade >= level]
        golds = [corpus[passage_id] for passage_id in ids if passage_id in corpus]
        if golds:
            found.append((query, golds))
        counts["questions without a gold passage"] += not ids
        counts["questions whose gold passage is not in the corpus"] += bool(ids) and not golds
    if not found:
        raise DataError(
            f"none of {len(dataset.queries)} questions has a gold passage in the corpus "
            f"({counts['questions without a gold passage']} without a judgement of grade {level:g} or more, "
            f"{counts['questions whose gold passage is not in the corpus']} whose gold passages are missing); check "
            "that queries, corpus and qrels are of the same data set"
        )
    return found


def _checked(cases: list[SignalCase], counts: Counter[str], facts: dict[str, Any]) -> SignalCases:
    if not cases:
        raise DataError(
            f"nothing to compare: beside gold passages no passage is left for any of "
            f"{counts[NOTHING]} questions; add passages to the corpus, or allow those "
            "that contain an answer"
        )
    answered = [case for case in cases if usable_golds(case.query.answers)]
    counts["questions studied"] = len(cases)
    counts["questions without gold answers"] = len(cases) - len(answered)
    counts["gold passages without a gold answer in their text"] = sum(
        not contains(case.gold.full_text, case.query.answers) for case in answered
    )
    for kind in SHORT:
        if counts[kind]:
            warn(f"signal: {counts[kind]} {kind}")
    spelled = json.dumps([[content(c.query), c.query.answers, *[p.id for _, p in c.candidates()]] for c in cases])
    return SignalCases(cases, dict(counts), {**facts, "cases_sha256": hashlib.sha256(spelled.encode()).hexdigest()})


def content(query: Query) -> str:
    """Return what a question says, its history with it, as one text."""
    return json.dumps([*((turn.role, turn.content) for turn in query.history), query.text])


def draw(seed: int, *texts: str) -> str:
    """Return 64 hex digits that are uniform over texts."""
    return hashlib.sha256(json.dumps([seed, *texts]).encode()).hexdigest()
