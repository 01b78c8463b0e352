"""A small world with gold passages and answers, a generator that reads, and a utility that looks things up."""

from utilitune.generator.protocol import Continuation, Generation, GeneratorIdentity, TaskResult
from utilitune.records import Dataset, Passage, Query
from utilitune.scoring import Value

TOWNS = ["Orlen", "Vastra", "Quill", "Meru", "Tolvik", "Brasca", "Iden", "Narrow", "Sembe", "Halvard"]


class Reader:
    """Answers with the first word of the document that follows "river": a reader that only copies."""

    def __init__(self):
        self.identity = GeneratorIdentity("reader", "1", "test", "float64", max_length=4096)
        self.counts = {}
        self.asked = 0

    def run(self, tasks):
        self.asked += len(tasks)
        return [
            TaskResult(
                self.answer(task.prompt) if task.max_new_tokens else None,
                tuple(Continuation("x", ("x",), (1,), (-1.0,), (0.5,)) for _ in task.continuations),
            )
            for task in tasks
        ]

    def answer(self, prompt):
        text = " ".join(content for _, content in prompt.messages).partition("Document: ")[2]
        word = text.partition("river ")[2].split(" ")[0] or "nothing"
        return Generation(word, (word,), (2,), (-0.5,), (0.25,), finish="stop")


class Table:
    """A utility that is a table: ``{passage_id: number}``, or raises where there is none."""

    needs_answers = False

    def __init__(self, name, numbers):
        self.name, self.numbers = name, numbers
        self.parameters = {}

    def requests(self, query, passages):
        return {}

    def value(self, query, passages, responses):
        number = self.numbers.get(passages[0].id)
        if number is None:
            raise ValueError("no number")
        return Value(number)


def make_world(towns=TOWNS, answers=True):
    """Town i lies on river R<i>; its question, its gold passage, and a copy of words for BM25."""
    corpus = [
        Passage(f"p{i}", f"The town of {town} lies on the river R{i} and has mills.", town)
        for i, town in enumerate(towns)
    ]
    queries = [
        Query(f"q{i}", f"On which river lies the town of {town}?", answers=(f"R{i}",) if answers else ())
        for i, town in enumerate(towns)
    ]
    return Dataset(corpus, queries, {f"q{i}": {f"p{i}": 1.0} for i in range(len(towns))}, "towns")
