"""Answers requests: from the store where it can, from the generator where it must."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from utilitune.generator.protocol import Continuation, Generator, Prompt, TaskResult
from utilitune.scoring.contrasting import contrasted_answers
from utilitune.scoring.failure import Answered, Failure
from utilitune.scoring.origin import Origin, Source, Subject
from utilitune.scoring.protocol import Contrast, Draw, Force, Greedy, Request
from utilitune.scoring.response_key import ResponseKeys
from utilitune.scoring.sampling import drawn_answers
from utilitune.scoring.schedule import Fused, Part, fuse, stages
from utilitune.scoring.store import LabelStore


class Responder:
    """Gives every request its response; equal requests, whoever asked, are looked up and computed once."""

    def __init__(self, generator: Generator, store: LabelStore) -> None:
        """Answer from ``store``, else from ``generator``."""
        self.generator = generator
        self.store = store
        self.keys = ResponseKeys(generator.identity.key())
        self._sources: dict[tuple[str, str, str], Source] = {}

    def respond(
        self, requests: Iterable[Request], subjects: Mapping[Prompt, Subject] | None = None
    ) -> dict[Request, Continuation | Failure]:
        """Answer ``requests`` and commit all new responses in one transaction.

        What the generator is given depends only on ``requests`` and on what the store lacks.

        Args:
            requests: The requests of one chunk, repeats allowed.
            subjects: What the prompts are about, for the store's rows; unknown when not given.

        Returns:
            Request -> response. Greedy answers that rescoring needed are there as well.
        """
        keys: dict[Request, bytes] = {}
        responses: dict[Request, Continuation | Failure] = {}
        new: dict[bytes, Continuation] = {}
        failed: dict[bytes, str] = {}
        origins: dict[bytes, Origin] = {}
        for stage in stages(requests):
            parts: dict[Request, Part] = {}
            for request in stage:
                part = self._part(request, responses)
                if isinstance(part, Failure):
                    responses[request] = part
                else:
                    parts[request] = part
            answered, fresh = self._answer(list(parts.values()))
            for part in parts.values():
                if part.key in fresh:
                    origins[part.key] = self._origin(part, subjects or {})
            failed.update({key: each.reason for key, each in fresh.items() if isinstance(each, Failure)})
            new.update({key: each for key, each in fresh.items() if not isinstance(each, Failure)})
            keys.update({request: part.key for request, part in parts.items()})
            responses.update({request: answered[part.key] for request, part in parts.items()})
        kept = self.store.put_many(new, origins, failed)
        return {request: kept.get(keys.get(request, b""), each) for request, each in responses.items()}

    def _part(self, request: Request, responses: Mapping[Request, Continuation | Failure]) -> Part | Failure:
        prompt = request.prompt
        if isinstance(request, Force):
            return Part(self.keys.scored(prompt, request.text), prompt, continuation=request.text)
        if isinstance(request, Draw):
            return Part(self.keys.drawn(request), prompt, draw=request)
        if isinstance(request, Contrast):
            return Part(self.keys.contrasted(request), prompt, contrast=request)
        if isinstance(request, Greedy):
            key = self.keys.greedy(prompt, request.max_new_tokens, request.stop)
            return Part(key, prompt, request.max_new_tokens, request.stop)
        answer = responses[request.of]
        if isinstance(answer, Failure):
            return answer
        tokens = tuple(answer.token_ids) or answer.text
        if not tokens:
            return Failure("the generator's answer is empty: nothing to score under the other prompt")
        return Part(self.keys.scored(prompt, tokens), prompt, continuation=tokens)

    def _origin(self, part: Part, subjects: Mapping[Prompt, Subject]) -> Origin:
        subject = subjects.get(part.prompt, Subject())
        kind = (part.kind, subject.prompt, subject.prompt_hash)
        if kind not in self._sources:
            self._sources[kind] = Source.of(self.generator.identity, *kind)
        return Origin(self._sources[kind], subject)

    def _answer(self, parts: Sequence[Part]) -> tuple[Answered, Answered]:
        """Return all responses by key, and those that the store does not have yet."""
        found = self.store.get_many([part.key for part in parts])
        missing = {part.key: part for part in parts if part.key not in found}
        drawn = [part for part in missing.values() if part.draw is not None]
        contrasted = [part for part in missing.values() if part.contrast is not None]
        computed = self._compute([part for part in missing.values() if part.draw is None and part.contrast is None])
        if drawn:
            computed.update(drawn_answers(self.generator, drawn))
        if contrasted:
            computed.update(contrasted_answers(self.generator, contrasted))
        answered: Answered = dict(found)
        answered.update(computed)
        return answered, computed

    def _compute(self, parts: list[Part]) -> Answered:
        """Run the parts; when the generator refuses, halve until the culprits stand alone."""
        if not parts:
            return {}
        fused = fuse(parts)
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


def _unpack(fused: Fused | None, result: TaskResult | None, answered: Answered) -> None:
    if fused is None or result is None or len(result.continuations) != len(fused.scored):
        raise RuntimeError("the generator did not return one result a task and one row a continuation")
    parts = [*([fused.greedy] if fused.greedy else []), *fused.scored]
    got = [*([result.answer] if fused.greedy else []), *result.continuations]
    for part, response in zip(parts, got, strict=True):
        if response is None or not response.logprobs:
            answered[part.key] = Failure("the generator gave no token")
        else:
            answered[part.key] = response
