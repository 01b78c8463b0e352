"""Answers that a distractor made wrong.

An answer from the first k passages counts as *made wrong by a distractor* when it is wrong and no abstention, and the
generator did better with less in front of it:

* without any passage it was right, or abstained; or
* a relevant passage is among the k, and with the relevant passages alone it was right.

So a question that the generator cannot answer either way is no distraction, nor is one whose relevant passage was not
found and which the generator could not answer by itself: that is the retriever's failure. What UDCG weighs by
``-gamma u`` is seen here in the answers themselves (hard distractors cost up to 9 points, arXiv 2510.21440).
"""

from __future__ import annotations

from collections.abc import Sequence

from utilitune.evaluation import accuracy
from utilitune.records import Answer, Query
from utilitune.records.run import Qrels

BARE, JUDGED = "orders/no-passage.jsonl", "orders/relevant-alone.jsonl"
"""Files of the answers without a passage, and with the relevant ones alone."""


def relevant_alone(queries: Sequence[Query], qrels: Qrels) -> dict[str, tuple[str, ...]]:
    """Return the relevant passages of each question that has any, best grade first.

    Args:
        queries: The questions.
        qrels: Judgements; relevant is from grade 1 on.

    Returns:
        ``{query_id: passage ids}``: contexts.
    """
    found = {}
    for query in queries:
        grades = {pid: grade for pid, grade in qrels.get(query.id, {}).items() if grade >= 1}
        if grades:
            found[query.id] = tuple(sorted(grades, key=lambda pid: (-grades[pid], pid)))
    return found


def made_wrong(
    queries: Sequence[Query],
    given: Sequence[Answer],
    bare: Sequence[Answer],
    alone: Sequence[Answer],
) -> dict[str, float]:
    """Say of each question with gold answers whether a distractor made its answer wrong.

    Args:
        queries: The questions.
        given: Answers from the first k passages.
        bare: Answers without a passage.
        alone: Answers with the relevant passages alone.

    Returns:
        ``{query_id: 1 or 0}``; 0 where the generator gave no answer. Right is ``contains``.
    """
    shown = {answer.query_id: answer for answer in given}
    without = {answer.query_id: answer for answer in bare}
    helped = {answer.query_id: answer for answer in alone}
    right, knew, could = (accuracy(answers, queries) for answers in (given, bare, alone))
    found = {}
    for query_id, value in right.items():
        answer, blank, relevant = shown.get(query_id), without.get(query_id), helped.get(query_id)
        wrong = answer is not None and not value and not answer.abstained
        better_bare = blank is not None and (bool(knew[query_id]) or blank.abstained)
        seen = answer is not None and relevant is not None and bool({*relevant.passage_ids} & {*answer.passage_ids})
        found[query_id] = float(wrong and (better_bare or (seen and bool(could[query_id]))))
    return found
