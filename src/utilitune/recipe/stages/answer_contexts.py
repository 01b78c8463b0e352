"""Answers by what stands in the prompt: systems that show a question the same passages share one answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from utilitune.evaluation import answer_questions, ranking
from utilitune.records import Answer, Passage, Query, Run

if TYPE_CHECKING:
    from utilitune.generator import Generator

Context = tuple[str, tuple[str, ...]]
"""A query's id and the passages in its prompt, in order."""


def answer_contexts(
    queries: Sequence[Query],
    contexts: Iterable[Context],
    passages: Mapping[str, Passage],
    generator: Generator,
    store: Path,
) -> dict[Context, Answer]:
    """Answer every context once.

    Contexts of one question stand together, those that begin with the same passages side by side, so that the
    generator reads a shared beginning once: the top 1, 3 and 5 of a ranking cost little more than its top 5.

    Args:
        queries: The questions.
        contexts: What to show; no passages is a context too.
        passages: Passages by id.
        generator: The LLM.
        store: Response store.

    Returns:
        Answers by context; one that the generator refused is not there.
    """
    by_id = {query.id: query for query in queries}
    found: dict[Context, Answer] = {}
    # Apart, since a question without passages is warned of where some were meant to be.
    grounded, bare = sorted({one for one in contexts if one[1]}), sorted({one for one in contexts if not one[1]})
    for asked in (grounded, bare):
        numbered = {str(number): context for number, context in enumerate(asked)}
        given = answer_questions(
            [replace(by_id[query_id], id=number) for number, (query_id, _) in numbered.items()],
            Run(
                {number: [(pid, -float(rank)) for rank, pid in enumerate(ids)] for number, (_, ids) in numbered.items()}
            ),
            passages,
            generator,
            k=max((len(ids) for _, ids in asked), default=0),
            store=store,
        )
        for answer in given:
            context = numbered[answer.query_id]
            found[context] = replace(answer, query_id=context[0])
    return found


def context(query_id: str, run: Run, k: int) -> Context:
    """Return what the first ``k`` passages of a run show a query."""
    return query_id, tuple(passage_id for passage_id, _ in ranking(run.get(query_id, ()))[:k])


def answers_of(queries: Sequence[Query], run: Run, k: int, found: Mapping[Context, Answer]) -> list[Answer]:
    """Return the answers from the first ``k`` passages of a run, in the queries' order; refused ones are not there."""
    asked = (context(query.id, run, k) for query in queries)
    return [found[one] for one in asked if one in found]
