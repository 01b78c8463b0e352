"""Answers of the generator from the first passages of a ranking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from utilitune.errors import ConfigError, DataError
from utilitune.evaluation.ranking import ranking
from utilitune.generator.protocol import Continuation, Generation, Generator
from utilitune.progress import progress, say, warn
from utilitune.records.answer import Answer
from utilitune.records.passage import Passage
from utilitune.records.query import Query
from utilitune.records.run import Run
from utilitune.scoring.answer_match import normalise_answer
from utilitune.scoring.protocol import Greedy

ABSTENTION = "NO-RESPONSE"
MAX_FAILED = 0.05
CHUNK = 64


def answer_questions(
    queries: Sequence[Query],
    run: Run,
    passages: Mapping[str, Passage],
    generator: Generator,
    *,
    k: int = 3,
    prompt: str = "answer",
    store: Path | str | None = None,
    max_failed: float = MAX_FAILED,
) -> list[Answer]:
    """Let the generator answer every question from the first ``k`` passages of its ranking, greedily.

    The ranking is the one that every measure reads (``ranking``). A question that ``run`` lacks, or has no
    passage for, is asked without passages. One that the generator refuses has no answer in the list (scored 0
    and counted there). One that reached the prompt's ``max_new_tokens`` is ``cut`` and kept as it is.

    Args:
        queries: The questions, with their histories.
        run: ``{query_id: [(passage_id, score), ...]}``.
        passages: Passages by id (``Dataset.passages()``).
        generator: The LLM.
        k: Passages in the prompt, at most; 0 asks every question without.
        prompt: Packaged prompt or path, see ``load_prompt``.
        store: Response store file, shared with ``label``: what is there is not computed again, so a second
            run is free and a killed one goes on. ``None`` keeps nothing.
        max_failed: Share of refused questions above which to stop, in [0, 1].

    Returns:
        Answers in the order of ``queries``.

    Raises:
        ConfigError: If ``k`` is negative.
        DataError: If a passage of the run is not in ``passages``, or the questions share an id.
        ThresholdError: If too many questions were refused.
    """
    from utilitune.generator import load_prompt
    from utilitune.records import check_share
    from utilitune.scoring import LabelStore
    from utilitune.scoring.responder import Responder

    if k < 0:
        raise ConfigError(f"k is {k}; it must be 0 or more")
    if len({query.id for query in queries}) < len(queries):
        raise DataError("two questions share an id; ids must be unique")
    template = load_prompt(prompt)
    asked: list[tuple[Query, tuple[str, ...], Greedy]] = []
    for query in queries:
        ids = tuple(passage_id for passage_id, _ in ranking(run.get(query.id, ()))[:k])
        shown = [_passage(passage_id, passages, query) for passage_id in ids]
        rendered = template.render(question=query.text, passages=shown, history=query.history)
        asked.append((query, ids, Greedy(rendered, template.max_new_tokens, tuple(template.stop))))
    bare = sum(1 for _, ids, _ in asked if not ids)
    if k and bare:
        warn(f"{bare} of {len(asked)} questions have no passages and are asked without")
    answers: list[Answer] = []
    failed = 0
    with LabelStore(store) as kept, progress("answer", len(asked), "questions") as bar:
        responder = Responder(generator, kept)
        for chunk in _chunks(asked):
            missed = kept.misses
            responses = responder.respond(request for _, _, request in chunk)
            for query, ids, request in chunk:
                response = responses[request]
                if isinstance(response, Continuation):
                    answers.append(_answer(query.id, ids, response))
                else:
                    failed += 1
                    warn(f"question {query.id!r} has no answer: {response.reason}")
            bar.advance(len(chunk), free=kept.misses == missed)
    cut = sum(answer.cut for answer in answers)
    if cut:
        say(f"answer: {cut} of {len(answers)} answers cut at {template.max_new_tokens} tokens")
    if asked:
        check_share({"failed": failed}, "failed", len(asked), max_failed, "questions")
    return answers


def is_abstention(text: str) -> bool:
    """Return whether an answer is the abstention string, whatever its case, hyphen or full stop, or begins with it."""
    words = text.split()
    # In one word it is never the beginning of an answer; as "no response" it may be.
    if words and normalise_answer(words[0]) == normalise_answer(ABSTENTION):
        return True
    return normalise_answer(text).replace(" ", "") == normalise_answer(ABSTENTION).replace(" ", "")


def _answer(query_id: str, passage_ids: tuple[str, ...], response: Continuation) -> Answer:
    text = response.text.strip()
    logprobs = response.logprobs
    mean = sum(logprobs) / len(logprobs) if logprobs else None
    cut = isinstance(response, Generation) and response.finish == "length"
    return Answer(query_id, passage_ids, text, is_abstention(text), mean, cut)


def _passage(passage_id: str, passages: Mapping[str, Passage], query: Query) -> Passage:
    if passage_id not in passages:
        raise DataError(
            f"passage {passage_id!r} of the run for query {query.id!r} is not in the corpus; "
            "check that run and corpus are of the same data set"
        )
    return passages[passage_id]


def _chunks(
    asked: Sequence[tuple[Query, tuple[str, ...], Greedy]],
) -> Iterator[Sequence[tuple[Query, tuple[str, ...], Greedy]]]:
    for start in range(0, len(asked), CHUNK):
        yield asked[start : start + CHUNK]
