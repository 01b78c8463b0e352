"""Candidate rewrites: what the model samples, its greedy answer, and candidates that cost nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Generation
from utilitune.progress import progress, say, warn
from utilitune.records.query import Query
from utilitune.rewrite.candidate import Candidate, Candidates, Source
from utilitune.rewrite.cheap import CHEAP
from utilitune.rewrite.clean import MAX_CHARACTERS, MAX_WORDS, clean_rewrite, normalise
from utilitune.scoring.failure import Failure
from utilitune.scoring.protocol import Draw, Greedy, Sample

if TYPE_CHECKING:
    from utilitune.generator.protocol import Continuation, Generator, Prompt
    from utilitune.records.pair import Message

SOURCES: tuple[str, ...] = (*CHEAP, "greedy")
EXTRA_SOURCES: tuple[str, ...] = ("original", "first-question", "greedy")
CHUNK = 32
KINDS = ("written", "fallback", "cut", "failed", "long", "duplicate")


def sample_candidates(
    queries: Sequence[Query],
    generator: Generator,
    *,
    n: int = 4,
    temperature: float = 0.9,
    top_p: float = 0.95,
    seed: int = 13,
    include: Collection[str] = EXTRA_SOURCES,
    prompt: str = "rewrite",
    max_new_tokens: int = 40,
    store: Path | str | None = None,
) -> Candidates:
    """Write candidate queries for every conversational question.

    The first question followed by the question is a strong candidate for next to nothing (MRR@10 .60 against
    .45 of a small model's greedy rewrite on QReCC), so it is included by default.

    Args:
        queries: Conversational questions; one without history is its own only sensible rewrite, yet is
            treated alike.
        generator: The model that rewrites.
        n: Samples a question, >= 0; they share one prefill of the prompt. The greedy rewrite takes another.
        temperature: Sampling temperature, > 0.
        top_p: Nucleus mass in (0, 1].
        seed: Sampler seed; a question gets the same samples whatever its neighbours.
        include: What to add: ``greedy``, or names of ``CHEAP`` (``first-question``, ``previous-question``,
            ``history``, ``keywords``). The question as typed (``original``) is a candidate in any case.
        prompt: Name or path of the prompt template.
        max_new_tokens: Length limit of a rewrite, in tokens. Train and rewrite with the same
            (``DpoConfig.max_new_tokens``).
        store: Response store file, shared with ``label``: what is there is not written again, so a second run
            is free and a killed one goes on. ``None`` keeps nothing.

    Returns:
        Distinct candidates (by normalised text) grouped by question, with counts: ``written`` texts,
        ``fallback`` (unusable, replaced by the question), ``cut`` (reached ``max_new_tokens``, left out: half a
        query must never be what a pair chooses), ``failed`` (refused by the model, left out), ``long`` (made from
        the conversation and longer than a rewrite may be, left out), ``duplicate`` (merged).

    Raises:
        ConfigError: For an unknown name in ``include``, ``n`` < 0, or a temperature or ``top_p`` out of range.
    """
    from utilitune.generator import load_prompt
    from utilitune.scoring.responder import Responder
    from utilitune.scoring.store import LabelStore

    check_sources(include)
    if n < 0:
        raise ConfigError(f"n={n}; expected n >= 0 samples a question")
    check_sampling(temperature, top_p)
    template = load_prompt(prompt)
    stop = tuple(template.stop)
    counts: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    rows: list[Candidate] = []
    with LabelStore(store) as kept, progress("candidates", len(queries), "questions") as bar:
        responder = Responder(generator, kept)
        for start in range(0, len(queries), CHUNK):
            chunk = queries[start : start + CHUNK]
            prompts = [template.render(question=query.text, history=query.history) for query in chunk]
            wanted: list[list[tuple[Source, Greedy | Draw]]] = []
            for asked in prompts:
                own: list[tuple[Source, Greedy | Draw]] = []
                if "greedy" in include:
                    own.append(("greedy", Greedy(asked, max_new_tokens, stop)))
                if n:
                    sample = Sample(asked, n, temperature, seed, max_new_tokens, stop, top_p)
                    own += [("sample", draw) for draw in sample.draws("sample").values()]
                wanted.append(own)
            missed = kept.misses
            responses = responder.respond(request for own in wanted for _, request in own)
            for query, asked, own in zip(chunk, prompts, wanted, strict=True):
                texts = _written(query, [(source, responses[request]) for source, request in own], counts)
                rows.extend(_distinct(query, messages(asked), texts, include, counts))
            bar.advance(len(chunk), free=kept.misses == missed)
    say(
        f"candidates: {len(rows)} for {len(queries)} questions; of {counts['written']} rewrites {counts['fallback']} "
        f"unusable (the question stands in), {counts['cut']} cut at {max_new_tokens} tokens and left out, "
        f"{counts['failed']} failed, {counts['long']} made from the conversation too long, "
        f"{counts['duplicate']} duplicates merged"
    )
    return Candidates(rows, counts)


def check_sources(include: Collection[str]) -> None:
    """Look at the names of candidates to add.

    Args:
        include: Names.

    Raises:
        ConfigError: For an unknown one, listing the known.
    """
    unknown = sorted(set(include) - set(SOURCES))
    if unknown:
        raise ConfigError(f"candidates {', '.join(unknown)} are unknown; known: {', '.join(SOURCES)}")


def check_sampling(temperature: float, top_p: float = 0.95) -> None:
    """Look at the options of sampling.

    Args:
        temperature: Sampling temperature, > 0 and finite.
        top_p: Nucleus mass in (0, 1].

    Raises:
        ConfigError: If either is out of range.
    """
    if not (0 < temperature < math.inf and 0 < top_p <= 1):
        raise ConfigError(f"temperature={temperature} (expected > 0), top_p={top_p} (expected 0 < top_p <= 1)")


def messages(prompt: Prompt) -> tuple[Message, ...]:
    """Return a prompt's messages in TRL's conversational form."""
    if prompt.messages:
        return tuple({"role": role, "content": content} for role, content in prompt.messages)
    return ({"role": "user", "content": prompt.plain},)


def _written(
    query: Query, responses: Sequence[tuple[Source, Continuation | Failure]], counts: Counter[str]
) -> list[tuple[Source, str]]:
    """Return what the model wrote in full, and count the rest."""
    texts: list[tuple[Source, str]] = []
    for source, response in responses:
        counts["written"] += 1
        if isinstance(response, Failure):
            counts["failed"] += 1
            warn(f"question {query.id!r} has no {source} rewrite: {response.reason}")
        elif isinstance(response, Generation) and response.finish == "length":
            counts["cut"] += 1
        else:
            texts.append((source, response.text))
    return texts


def _distinct(
    query: Query,
    asked: tuple[Message, ...],
    written: Sequence[tuple[Source, str]],
    include: Collection[str],
    counts: Counter[str],
) -> list[Candidate]:
    """Clean, fall back, and keep the first candidate of each normalised text."""
    question = " ".join(query.text.split())
    texts: list[tuple[Source, str]] = [("original", question)]
    for name, make in CHEAP.items():
        if name in include and name != "original":
            text = " ".join(make(query).split())
            # A query that is longer than a rewrite can get is no example of one.
            if len(text.split()) > MAX_WORDS or len(text) > MAX_CHARACTERS:
                counts["long"] += 1
            else:
                texts.append((cast("Source", name), text))
    for source, raw in written:
        cleaned = clean_rewrite(raw)
        if cleaned is None:
            counts["fallback"] += 1
        texts.append((source, question if cleaned is None else cleaned))
    kept: dict[str, Candidate] = {}
    for source, text in texts:
        if kept.setdefault(normalise(text), made := Candidate(query.id, text, source, asked)) is not made:
            counts["duplicate"] += 1
    return list(kept.values())
