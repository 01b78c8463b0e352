"""A few invented questions and passages, with a run over them."""

from utilitune.records.dataset import Dataset
from utilitune.records.passage import Passage
from utilitune.records.query import Query, Turn
from utilitune.records.run import Run

TOWNS = ["Orlen", "Vastra", "Quill", "Meru", "Tolvik", "Brasca", "Iden", "Narrow"]


def small_world(queries=6, passages=3):
    corpus = [
        Passage(f"p{number}", f"{town} lies on the river {town[::-1]} and has {number + 2} mills.", town)
        for number, town in enumerate(TOWNS)
    ]
    asked = [Query(f"q{n}", f"On which river is {TOWNS[n % len(TOWNS)]}, year {n}?") for n in range(queries)]
    asked[-1] = Query(
        f"q{queries - 1}",
        "And how many mills?",
        history=(Turn("user", "Where is Quill?"), Turn("assistant", "On the river lliuQ.")),
    )
    run = Run(
        {
            query.id: [(corpus[(number + step) % len(corpus)].id, 1.0 / (1 + step)) for step in range(passages)]
            for number, query in enumerate(asked)
        }
    )
    return Dataset(corpus, asked, name="small"), run
