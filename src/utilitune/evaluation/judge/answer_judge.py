"""A judge of single answers against gold answers: CORRECT, INCORRECT or ABSTAINED."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum
from pathlib import Path

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.answer_accuracy import accuracy, by_query
from utilitune.evaluation.judge.agreement import Agreement, agreement
from utilitune.generator.prompt_template import PromptTemplate, load_prompt
from utilitune.generator.protocol import Continuation, Generator, Prompt
from utilitune.progress import progress
from utilitune.records.answer import Answer
from utilitune.records.query import Query
from utilitune.scoring.answer_match import usable_golds
from utilitune.scoring.failure import Failure
from utilitune.scoring.gold_answers import distinct_golds
from utilitune.scoring.protocol import Force, Greedy, Request
from utilitune.scoring.responder import Responder
from utilitune.scoring.store import LabelStore

MARKS = ("CORRECT", "INCORRECT", "ABSTAINED")
READINGS = ("probability", "word")
CHUNK = 32
_WORD = re.compile(r"\W*(INCORRECT|CORRECT|ABSTAINED)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Mark:
    """One row of a judge's file.

    Attributes:
        query_id: The question.
        mark: ``"CORRECT"``, ``"INCORRECT"``, ``"ABSTAINED"``; ``None`` unless ``status`` is ``"ok"``.
        status: ``"ok"``, ``"unparsed"`` or ``"failed"``.
        raw: The reply, or why there is none; empty where nothing was asked.
        probabilities: Of the three words alone; ``None`` for a written mark.
    """

    query_id: str
    mark: str | None
    status: str = "ok"
    raw: str = ""
    probabilities: Mapping[str, float] | None = None


def judge_answers(
    answers: Sequence[Answer],
    queries: Sequence[Query],
    generator: Generator,
    *,
    reading: str = "probability",
    prompt: str | PromptTemplate = "answer-judge",
    store: Path | str | None = None,
) -> list[Mark]:
    """Let a judge mark answers; one that is flagged ``abstained`` is ABSTAINED, and nothing is asked.

    Args:
        answers: At most one a question.
        queries: The questions; those without a gold answer are left out.
        generator: The judge.
        reading: ``"probability"`` compares the three words in the place of the reply (each in its likelier spelling,
            with or without a leading space); ``"word"`` reads the written reply.
        prompt: Packaged prompt, prompt file or template.
        store: Response store file; ``None`` keeps nothing.

    Returns:
        One mark for every answer to a question with a gold answer, in the questions' order.

    Raises:
        ConfigError: For an unknown reading, or a prompt that cannot be filled.
        DataError: If a question has two answers, or no answer can be marked.
    """
    if reading not in READINGS:
        raise ConfigError(f"unknown reading {reading!r}; known: {', '.join(READINGS)}")
    form = prompt if isinstance(prompt, PromptTemplate) else load_prompt(prompt)
    said = by_query(answers)
    work = [(query, said[query.id]) for query in queries if query.id in said and usable_golds(query.answers)]
    if not work:
        raise DataError("no answer belongs to a question with a gold answer: nothing can be marked")
    marks: list[Mark] = []
    with LabelStore(store) as kept, progress("judge", len(work), "answers") as bar:
        responder = Responder(generator, kept)
        for start in range(0, len(work), CHUNK):
            chunk = work[start : start + CHUNK]
            asked = {
                query.id: {} if answer.abstained else _requests(_prompt(query, answer, form), form, reading)
                for query, answer in chunk
            }
            responses = responder.respond(request for named in asked.values() for request in named.values())
            for query_id, named in asked.items():
                marks.append(_mark(query_id, {name: responses[each] for name, each in named.items()}))
            bar.advance(len(chunk))
    return marks


def marks_against_match(
    marks: Sequence[Mark], answers: Sequence[Answer], queries: Sequence[Query], measure: str = "contains"
) -> Agreement:
    """Compare the judge with string match: CORRECT against a match, the other marks against none.

    Args:
        marks: The judge's marks; those without one are left out.
        answers: The answers.
        queries: The questions.
        measure: ``"contains"`` or ``"EM"``.

    Returns:
        Agreement over the marked answers.

    Raises:
        ConfigError: For a measure that is not right or wrong.
        DataError: If nothing is marked.
    """
    if measure not in ("contains", "EM"):
        raise ConfigError(f"measure {measure!r} is not right or wrong; expected contains or EM")
    matched = accuracy(answers, queries, measure)
    judged = [mark for mark in marks if mark.mark is not None]
    return agreement(
        ["right" if mark.mark == "CORRECT" else "wrong" for mark in judged],
        ["right" if matched[mark.query_id] else "wrong" for mark in judged],
    )


def _prompt(query: Query, answer: Answer, form: PromptTemplate) -> Prompt:
    return form.render(
        question=query.text, history=query.history, answers=distinct_golds(query), candidates=(answer.answer,)
    )


def _requests(prompt: Prompt, form: PromptTemplate, reading: str) -> dict[str, Request]:
    if reading == "word":
        return {"reply": Greedy(prompt, form.max_new_tokens, tuple(form.stop))}
    return {text: Force(prompt, text) for mark in MARKS for text in (mark, f" {mark}")}


def _mark(query_id: str, responses: Mapping[str, Continuation | Failure]) -> Mark:
    if not responses:
        return Mark(query_id, "ABSTAINED")
    failures = [each.reason for each in responses.values() if isinstance(each, Failure)]
    if failures:
        return Mark(query_id, None, "failed", failures[0])
    got = {name: each for name, each in responses.items() if isinstance(each, Continuation)}
    if "reply" in got:
        match = _WORD.match(got["reply"].text)
        return Mark(
            query_id, match.group(1).upper() if match else None, "ok" if match else "unparsed", got["reply"].text
        )
    scores = {mark: max(fsum(got[text].logprobs) for text in (mark, f" {mark}")) for mark in MARKS}
    top = max(scores.values())
    total = fsum(exp(score - top) for score in scores.values())
    shares = {mark: exp(score - top) / total for mark, score in scores.items()}
    return Mark(query_id, max(shares, key=lambda mark: shares[mark]), "ok", "", shares)
