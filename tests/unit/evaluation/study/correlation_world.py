"""A planted world: passages say what they are worth, and a generator whose answers obey UDCG's sum."""

import math
import random
import re

from utilitune.evaluation.study.correlation.ranked_list import RankedList
from utilitune.generator.protocol import Continuation, Generation, GeneratorIdentity, TaskResult
from utilitune.records import Dataset, Passage, Query, Run
from utilitune.scoring import Value

DEPTH = 5
GAMMA = 1 / 3
ENOUGH, TOO_LITTLE = -0.03, -0.1


class Judge:
    """Right where the sum over its documents, ``u`` of those with the answer less a third of the others', is enough."""

    def __init__(self, enough=ENOUGH):
        self.identity = GeneratorIdentity("judge", "1", "test", "float64", max_length=4096)
        self.counts = {}
        self.enough = enough
        self.answered = []
        self.forced = 0

    def run(self, tasks):
        return [self.result(task) for task in tasks]

    def result(self, task):
        documents = documents_of(task.prompt)
        self.answered += [documents] if task.max_new_tokens else []
        self.forced += bool(task.continuations)
        u = sum(worth for worth, _ in documents) / len(documents) if documents else 0.0
        forced = tuple(
            Continuation(text, ("NO",), (1,), (math.log(max(1 - u, 1e-9)),), (0.5,)) for text in task.continuations
        )
        return TaskResult(self.answer(documents) if task.max_new_tokens else None, forced)

    def answer(self, documents):
        total = sum(worth if river else -GAMMA * worth for worth, river in documents) / max(len(documents), 1)
        rivers = [river for _, river in documents if river]
        return said(
            rivers[0] if rivers and total > self.enough else "NO-RESPONSE" if total < TOO_LITTLE else "somewhere"
        )


class Ends(Judge):
    """Right where the document with the answer is the first or the last one."""

    def answer(self, documents):
        shown = {documents[0][1], documents[-1][1]} - {""}
        return said(shown.pop() if shown else "NO-RESPONSE")


def said(text):
    return Generation(text, (text,), (2,), (-0.5,), (0.25,), finish="stop")


def documents_of(prompt):
    """``[(worth, river or "")]`` of the last message's documents, in order."""
    shown = prompt.messages[-1][1].split("Document: ")[1:]
    return [
        (float(re.search(r"worth (\S+) ", text)[1]), (re.search(r"river (R\d+)", text) or ["", ""])[1])
        for text in shown
    ]


class Sets:
    """A utility of whole lists: how many passages there are, less the place of the first id."""

    name, needs_answers, parameters = "sets", False, {}

    def requests(self, query, passages):
        return {}

    def value(self, query, passages, responses):
        return Value(float(len(passages)) - int(passages[0].id.rpartition("-")[2]) / 10)


def planted(questions=40, seed=0, depth=DEPTH):
    """``(data set, run)``: one relevant passage a list at a random place; worth is independent of the place."""
    rng = random.Random(seed)
    corpus, queries, qrels, run = [], [], {}, Run()
    for number in range(questions):
        gold, ids = rng.randrange(depth), []
        for place in range(depth):
            worth = round(rng.uniform(0.05, 0.95), 3)
            river = f"lies on the river R{number} and" if place == gold else "is a place that"
            ids.append(f"p{number}-{place}")
            corpus.append(Passage(ids[-1], f"worth {worth} it {river} Town{number} number {place}."))
        queries.append(Query(f"q{number}", f"On which river is Town{number} ?", answers=(f"R{number}",)))
        qrels[f"q{number}"] = {ids[gold]: 1.0}
        run[f"q{number}"] = [(each, float(depth - place)) for place, each in enumerate(ids)]
    return Dataset(corpus, queries, qrels, "planted"), run


def noise(seed, n=60, k=DEPTH):
    """Lists whose outcome has nothing to do with anything."""
    rng = random.Random(seed)
    lists = []
    for number in range(n):
        gold = rng.randrange(k)
        relevant = tuple(place == gold for place in range(k))
        utilities = tuple(rng.uniform(0.05, 0.95) for _ in range(k))
        ids = tuple(map(str, range(k)))
        lists.append(
            RankedList(f"q{number}", "s", k, ids, relevant, utilities, (0.0,) * k, {}, rng.random() < 0.4, False)
        )
    return lists
