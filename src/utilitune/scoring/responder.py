"""Answers requests: from the store where it can, from the generator where it must."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from utilitune.generator.protocol import Continuation, Generator, Prompt, Task, TaskResult
from utilitune.scoring.protocol import Force, Greedy, Request, Rescore
from utilitune.scoring.response_key import ResponseKeys
from utilitune.scoring.store import LabelStore


@dataclass(frozen=True)
class Failure:
    """No response, and why."""

    reason: str


@dataclass(frozen=True)
class _Part:
    """One response to be had from the generator: a greedy answer, or a scored continuation."""

    key: bytes
    prompt: Prompt
    max_new_tokens: int = 0
    stop: tuple[str, ...] = ()
    continuation: str | tuple[int, ...] | None = None


@dataclass
class _Fused:
    """Parts that share one prompt and hence one prefill; at most one greedy answer."""

    prompt: Prompt
    greedy: _Part | None = None
    scored: list[_Part] = field(default_factory=list)

    def task(self) -> Task:
        texts = tuple(part.continuation for part in self.scored if part.continuation is not None)
        if self.greedy is None:
            return Task(self.prompt, continuations=texts)
        return Task(self.prompt, self.greedy.max_new_tokens, self.greedy.stop, texts)


Answered = dict[bytes, Continuation | Failure]


class Responder:
    """Gives every request its response; equal requests, whoever asked, are looked up and computed once."""

    def __init__(self, generator: Generator, store: LabelStore) -> None:
        """Answer from ``store``, else from ``generator``."""
        self.generator = generator
        self.store = store
        self.keys = ResponseKeys(generator.identity.key())

    def respond(self, requests: Iterable[Request]) -> dict[Request, Continuation | Failure]:
        """Answer ``requests`` and commit all new responses in one transaction.

        Phase 1 gets the greedy answers and forced texts, phase 2 scores the answers' token ids under other
        prompts. What the generator is given depends only on ``requests`` and on what the store lacks.

        Args:
            requests: The requests of one chunk, repeats allowed.

        Returns:
            Request -> response. Greedy answers that rescoring needed are there as well.
        """
        unique: dict[Request, None] = {}
        for request in requests:
            if isinstance(request, Rescore):
                unique[request.of] = None
            unique[request] = None
        first: dict[Request, _Part] = {
            request: self._part(request) for request in unique if not isinstance(request, Rescore)
        }
        answered, new = self._answer(list(first.values()))
        second: dict[Request, _Part] = {}
        failed: dict[Request, Failure] = {}
        for request in unique:
            if isinstance(request, Rescore):
                part = self._rescoring(request, answered[first[request.of].key])
                if isinstance(part, Failure):
                    failed[request] = part
                else:
                    second[request] = part
        more, new_scores = self._answer(list(second.values()))
        answered.update(more)
        answered.update(self.store.put_many({**new, **new_scores}))
        responses = {request: answered[part.key] for request, part in {**first, **second}.items()}
        responses.update(failed)
        return responses

    def _part(self, request: Greedy | Force) -> _Part:
        if isinstance(request, Force):
            key = self.keys.scored(request.prompt, request.text)
            return _Part(key, request.prompt, continuation=request.text)
        key = self.keys.greedy(request.prompt, request.max_new_tokens, request.stop)
        return _Part(key, request.prompt, request.max_new_tokens, request.stop)

    def _rescoring(self, request: Rescore, answer: Continuation | Failure) -> _Part | Failure:
        if isinstance(answer, Failure):
            return answer
        tokens = tuple(answer.token_ids) or answer.text
        if not tokens:
            return Failure("the generator's answer is empty: nothing to score under the other prompt")
        return _Part(self.keys.scored(request.prompt, tokens), request.prompt, continuation=tokens)

    def _answer(self, parts: Sequence[_Part]) -> tuple[Answered, dict[bytes, Continuation]]:
        """Return all responses by key, and those that the store does not have yet."""
        found = self.store.get_many([part.key for part in parts])
        missing = {part.key: part for part in parts if part.key not in found}
        computed = self._compute(list(missing.values()))
        new = {key: each for key, each in computed.items() if not isinstance(each, Failure)}
        answered: Answered = dict(found)
        answered.update(computed)
        return answered, new

    def _compute(self, parts: list[_Part]) -> Answered:
        """Run the parts; when the generator refuses, halve until the culprits stand alone."""
        if not parts:
            return {}
        fused = _fuse(parts)
        try:
            results = self.generator.run([each.task() for each in fused])
        except ValueError as error:
            if len(parts) == 1:
                return {parts[0].key: Failure(f"the generator refused the prompt: {error}")}
            middle = len(parts) // 2
            answered: Answered = self._compute(parts[:middle])
            answered.update(self._compute(parts[middle:]))
            return answered
        answered = {}
        for each, result in zip_longest(fused, results):
            _unpack(each, result, answered)
        return answered


def _fuse(parts: Iterable[_Part]) -> list[_Fused]:
    """Group parts by prompt in order of first appearance; a second greedy answer needs a task of its own."""
    first: dict[Prompt, _Fused] = {}
    fused: list[_Fused] = []
    for part in parts:
        group = first.get(part.prompt)
        if group is None or (part.continuation is None and group.greedy is not None):
            group = _Fused(part.prompt)
            first.setdefault(part.prompt, group)
            fused.append(group)
        if part.continuation is None:
            group.greedy = part
        else:
            group.scored.append(part)
    return fused


def _unpack(fused: _Fused | None, result: TaskResult | None, answered: Answered) -> None:
    if fused is None or result is None or len(result.continuations) != len(fused.scored):
        raise RuntimeError("the generator did not return one result a task and one row a continuation")
    parts = [*([fused.greedy] if fused.greedy else []), *fused.scored]
    got = [*([result.answer] if fused.greedy else []), *result.continuations]
    for part, response in zip(parts, got, strict=True):
        if response is None or not response.logprobs:
            answered[part.key] = Failure("the generator gave no token")
        else:
            answered[part.key] = response
