"""Asking a judge about every comparison in both orders; what fails to parse is asked again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from utilitune.errors import ConfigError
from utilitune.evaluation.judge.comparison import Comparison
from utilitune.evaluation.judge.criterion import named_criteria
from utilitune.evaluation.judge.judgement import ORDERS, Judgement, Order, Verdict
from utilitune.evaluation.judge.reading import Reading, Reply, make_reading
from utilitune.evaluation.judge.verdict import Position
from utilitune.generator.prompt_template import PromptTemplate, load_prompt
from utilitune.generator.protocol import Continuation, Generator, Prompt
from utilitune.progress import progress
from utilitune.scoring.failure import Failure
from utilitune.scoring.responder import Responder
from utilitune.scoring.store import LabelStore

# Comparisons between two commits to the store: what a kill can cost.
CHUNK = 8
RETRIES = 2


@dataclass(frozen=True)
class _Ask:
    """One prompt: a comparison in one order, by one dimension or by all."""

    comparison: Comparison
    order: Order
    dimensions: tuple[str, ...]
    prompt: Prompt


def judge_pairs(
    comparisons: Sequence[Comparison],
    generator: Generator,
    *,
    dimensions: Sequence[str] | None = None,
    reading: str = "probability",
    prompt: str | PromptTemplate | None = None,
    retries: int = RETRIES,
    store: Path | str | None = None,
) -> list[Judgement]:
    """Let a judge compare answers, each pair in both orders.

    Args:
        comparisons: Pairs of answers.
        generator: The judge.
        dimensions: Names of dimensions; all four when ``None``.
        reading: ``"probability"``, ``"letter"`` or ``"json"``.
        prompt: Packaged prompt, prompt file or template; the reading's own when ``None``.
        retries: How often a reply without a verdict is asked for again (sampled, temperature 0.7, one seed an attempt).
        store: Response store file: a second run is free, a killed one goes on; ``None`` keeps nothing.

    Returns:
        One judgement a comparison, order and dimension, in this order, whatever came of it.

    Raises:
        ConfigError: For an unknown reading or dimension, a prompt that cannot be filled, or negative ``retries``.
    """
    if retries < 0:
        raise ConfigError(f"retries is {retries}; expected 0 or more")
    reader = make_reading(reading)
    form = prompt if isinstance(prompt, PromptTemplate) else load_prompt(prompt or reader.prompt)
    criteria = named_criteria(dimensions)
    judgements: list[Judgement] = []
    total = len(comparisons) * len(ORDERS) * len(criteria)
    with LabelStore(store) as kept, progress("judge", total, "judgements") as bar:
        responder = Responder(generator, kept)
        for start in range(0, len(comparisons), CHUNK):
            chunk = comparisons[start : start + CHUNK]
            asks = [ask for each in chunk for ask in _asks(each, criteria, reader, form)]
            fresh = _judged(asks, reader, form, responder, retries if reader.retries else 0)
            judgements += fresh
            bar.advance(len(fresh))
    return judgements


def _asks(comparison: Comparison, criteria: Mapping[str, str], reader: Reading, form: PromptTemplate) -> Iterator[_Ask]:
    names = tuple(criteria)
    for order in ORDERS:
        answers = (comparison.answer_a, comparison.answer_b)
        shown = answers if order == "ab" else answers[::-1]
        for group in (names,) if reader.joint else tuple((name,) for name in names):
            yield _Ask(comparison, order, group, _prompt(comparison, shown, {n: criteria[n] for n in group}, form))


def _prompt(
    comparison: Comparison, shown: tuple[str, ...], criteria: Mapping[str, str], form: PromptTemplate
) -> Prompt:
    return form.render(question=comparison.question, history=comparison.history, candidates=shown, criteria=criteria)


def _judged(
    asks: Sequence[_Ask], reader: Reading, form: PromptTemplate, responder: Responder, retries: int
) -> list[Judgement]:
    """Ask, and ask again for what has no verdict; a verdict once had is kept."""
    had: dict[int, dict[str, Judgement]] = {place: {} for place in range(len(asks))}
    waiting = list(range(len(asks)))
    for attempt in range(retries + 1):
        wanted = {place: reader.requests(asks[place].prompt, form, attempt) for place in waiting}
        responses = responder.respond(request for named in wanted.values() for request in named.values())
        for place, named in wanted.items():
            got = {name: responses[request] for name, request in named.items()}
            for judgement in _read(asks[place], got, reader, attempt):
                before = had[place].get(judgement.dimension)
                if before is None or (before.status != "ok" and judgement.status != "failed"):
                    had[place][judgement.dimension] = judgement
        waiting = [place for place in waiting if any(each.status == "unparsed" for each in had[place].values())]
    return [had[place][dimension] for place, ask in enumerate(asks) for dimension in ask.dimensions]


def _read(
    ask: _Ask, responses: Mapping[str, Continuation | Failure], reader: Reading, attempt: int
) -> Iterator[Judgement]:
    got = {name: each for name, each in responses.items() if isinstance(each, Continuation)}
    failures = [each.reason for each in responses.values() if isinstance(each, Failure)]
    replies = {} if failures else reader.read(got, ask.dimensions)
    for dimension in ask.dimensions:
        reply = replies.get(dimension) or Reply(None, failures[0])
        p_a = reply.p_first if reply.p_first is None or ask.order == "ab" else 1 - reply.p_first
        yield Judgement(
            query_id=ask.comparison.query_id,
            system_a=ask.comparison.system_a,
            system_b=ask.comparison.system_b,
            order=ask.order,
            dimension=dimension,
            verdict=_verdict(reply.position, ask.order),
            status="failed" if failures else "unparsed" if reply.position is None else "ok",
            raw=reply.raw,
            attempts=attempt + 1,
            p_a=p_a,
            mass=reply.mass,
            truncated=any(each.truncated for each in got.values()),
        )


def _verdict(position: Position | None, order: Order) -> Verdict | None:
    if position is None or position == "tie":
        return position
    return "a" if (position == "first") == (order == "ab") else "b"
