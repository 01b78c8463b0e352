"""The sample world as a data set: corpus, questions, conversations, judgements, split by group of entities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from utilitune.errors import ConfigError
from utilitune.progress import progress
from utilitune.records import Dataset, Passage, Qrels, Query, Turn, write_dataset
from utilitune.sample.conversations import TURNS, Exchange, converse
from utilitune.sample.entity import Entity, Group
from utilitune.sample.layout import entity_id, number_of, passage_id, places, sample_corpus
from utilitune.sample.questions import askable, stand_alone
from utilitune.sample.world import build_group

NAME = "sample-world"
TEST_SHARE = 0.3
FACTS_PER_GROUP, TALKS_PER_GROUP = 26, 10  # how thickly groups are asked about before another is added
EVERY_BAR = 1000


@dataclass
class _Asked:
    """Collects queries and judgements."""

    queries: list[Query] = field(default_factory=list)
    qrels: Qrels = field(default_factory=dict)

    def add(self, query: Query, gold: int) -> None:
        self.queries.append(query)
        self.qrels[query.id] = {passage_id(gold): 1.0}


def make_sample(*, passages: int = 400, questions: int = 260, conversations: int = 100, seed: int = 7) -> Dataset:
    """Make the sample world in memory.

    Everything is a function of the arguments: no clock, no hash order, no platform. Entities come in closed groups;
    about 30 % of the groups are asked about in ``test`` only, the others in ``train`` only. The corpus holds both.

    Args:
        passages: Size of the corpus; 40 make a group.
        questions: Stand-alone questions (``q0001``, ...).
        conversations: Conversations of three to five turns (``c0001_1``, ...); later turns need the history.
        seed: Which world.

    Returns:
        A data set whose queries carry ``answers``, ``rewrite``, ``history`` and ``metadata`` (``split``,
        ``conversation``, ``entity``, ``attribute``, ``move``).

    Raises:
        ConfigError: If the corpus is too small for so many questions or conversations, or too large for the names.
    """
    asked = _ask(passages, questions, conversations, seed)
    return Dataset(list(sample_corpus(passages, seed)), asked.queries, asked.qrels, NAME)


def write_sample(
    folder: Path | str, *, passages: int = 400, questions: int = 260, conversations: int = 100, seed: int = 7
) -> None:
    """Write the sample world as a BEIR folder, the corpus streamed: memory does not grow with ``passages``.

    Args:
        folder: Where to; made if missing, else empty.
        passages: See ``make_sample``.
        questions: See ``make_sample``.
        conversations: See ``make_sample``.
        seed: See ``make_sample``.

    Raises:
        ConfigError: As ``make_sample``, or if the folder holds anything: it may be somebody's data.
    """
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        what = f"holds files (such as {min(folder.iterdir()).name})" if folder.is_dir() else "is a file"
        raise ConfigError(f"{folder} {what}; nothing was written: name a new folder, or remove this one first")
    asked = _ask(passages, questions, conversations, seed)
    corpus: Any = _Corpus(passages, seed)
    write_dataset(folder, Dataset(corpus, asked.queries, asked.qrels, NAME))


class _Corpus:
    """The corpus as something to iterate over, made anew each time, with progress."""

    def __init__(self, passages: int, seed: int) -> None:
        self.passages, self.seed = passages, seed

    def __len__(self) -> int:
        return self.passages

    def __iter__(self) -> Iterator[Passage]:
        with progress("sample", self.passages, "passages") as bar:
            waiting = 0
            for passage in sample_corpus(self.passages, self.seed):
                yield passage
                waiting += 1
                if waiting == EVERY_BAR:
                    bar.advance(waiting)
                    waiting = 0
            bar.advance(waiting)


def _ask(passages: int, questions: int, conversations: int, seed: int) -> _Asked:
    if min(passages, questions, conversations) < 0 or passages < 1:
        raise ConfigError(
            f"a sample needs passages >= 1, questions >= 0 and conversations >= 0, not {passages}, {questions}, "
            f"{conversations}"
        )
    groups = _asked_groups(passages, questions, conversations, seed)
    splits = _splits([group.number for group in groups], seed)
    asked = _Asked()
    _add_questions(asked, groups, splits, passages, questions, seed)
    _add_conversations(asked, groups, splits, passages, conversations, seed)
    return asked


def _asked_groups(passages: int, questions: int, conversations: int, seed: int) -> list[Group]:
    """Choose the groups that are asked about, spread evenly over the corpus."""
    existing = -(-passages // len(places()))
    wanted = max(10, -(-questions // FACTS_PER_GROUP), -(-conversations // TALKS_PER_GROUP))
    count = min(existing, wanted)
    return [build_group(i * existing // count, seed) for i in range(count)]


def _splits(numbers: list[int], seed: int) -> dict[int, str]:
    order = list(numbers)
    Random(f"{seed}/split").shuffle(order)
    test = order[: max(1, round(TEST_SHARE * len(order)))] if len(order) > 1 else []
    return {number: "test" if number in test else "train" for number in numbers}


def _metadata(group: Group, entity: Entity, attribute: str, split: str, conversation: str) -> dict[str, str]:
    return {
        "split": split,
        "conversation": conversation,
        "entity": entity_id(group.number, entity.key),
        "attribute": attribute,
    }


def _add_questions(
    asked: _Asked, groups: list[Group], splits: dict[int, str], passages: int, questions: int, seed: int
) -> None:
    pools = []
    for group in groups:
        facts = askable(group, passages)
        Random(f"{seed}/questions/{group.number}").shuffle(facts)
        pools.append((group, facts))
    most = sum(len(facts) for _, facts in pools)
    if questions > most:
        raise ConfigError(f"{passages} passages allow at most {most} questions, not {questions}; ask for more passages")
    turn = 0
    for number in range(1, questions + 1):
        while not pools[turn % len(pools)][1]:
            turn += 1
        group, facts = pools[turn % len(pools)]
        turn += 1
        entity, attribute = facts.pop()
        query_id = f"q{number:04d}"
        text = stand_alone(entity, attribute, Random(f"{seed}/wording/{query_id}"))
        metadata = _metadata(group, entity, attribute, splits[group.number], query_id)
        query = Query(query_id, text, (), entity.facts[attribute].answers, text, metadata)
        asked.add(query, number_of(group, entity, attribute))


def _add_conversations(
    asked: _Asked, groups: list[Group], splits: dict[int, str], passages: int, conversations: int, seed: int
) -> None:
    for number in range(1, conversations + 1):
        name = f"c{number:04d}"
        group = groups[(number - 1) % len(groups)]
        facts = askable(group, passages)
        said = _talk(group, facts, name, seed)
        if len(said) < TURNS[0]:
            raise ConfigError(f"{passages} passages are too few for conversations; ask for at least {len(places())}")
        history: list[Turn] = []
        for turn, exchange in enumerate(said, start=1):
            metadata = _metadata(group, exchange.entity, exchange.attribute, splits[group.number], name)
            query = Query(
                f"{name}_{turn}",
                exchange.text,
                tuple(history),
                exchange.fact.answers,
                exchange.rewrite,
                metadata | {"move": exchange.move},
            )
            asked.add(query, number_of(group, exchange.entity, exchange.attribute))
            history += [Turn("user", exchange.text), Turn("assistant", exchange.reply)]


def _talk(group: Group, facts: list[tuple[Entity, str]], name: str, seed: int) -> list[Exchange]:
    """A conversation of enough turns; a few starts may run dry in a cut-off group."""
    rng = Random(f"{seed}/talk/{name}")
    starts = list({entity.key: entity for entity, _ in facts}.values())
    said: list[Exchange] = []
    for _ in range(20):
        if starts and len(said) < TURNS[0]:
            said = converse(group, facts, rng.choice(starts), rng)
    return said
