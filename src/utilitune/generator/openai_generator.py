"""The generator on an OpenAI-compatible server: vLLM, llama.cpp and others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Continuation, Generation, GeneratorIdentity, Prompt, Task, TaskResult
from utilitune.generator.sampling_check import check_sampling
from utilitune.generator.server_answer import AnswerReader
from utilitune.generator.server_client import Json, ServerClient
from utilitune.generator.server_error import RequestFailed
from utilitune.generator.server_probe import NEUTRAL, Abilities, writing_body
from utilitune.generator.server_prompt import COMPLETIONS, Prepared, Prompts, TokenPrompts
from utilitune.generator.server_scoring import TEXT_WAYS, TOKEN_WAYS
from utilitune.generator.window import PromptTooLong, fit_each
from utilitune.progress import warn

# Replies kept for callers that ask again without the request that failed.
_KEPT = 20_000


@dataclass(frozen=True)
class _Call:
    """One request and how to read its reply: a written answer, or a scored text."""

    path: str
    body: Json
    prepared: Prepared
    stop: tuple[str, ...] = ()
    given: str | tuple[int, ...] | None = None
    follows: str | tuple[int, ...] = ()


class OpenAIGenerator:
    """A ``Generator`` over HTTP. One request an answer or a scored text; entropies are bounds, never exact.

    Use ``load_generator({"backend": "openai", "model": …, "base_url": …})``, which asks the server what it can do.

    Args:
        client: The server.
        prompts: The form that prompts are sent in.
        abilities: What the server can do.
        identity: Everything that can change a number.
        vocabulary: Number of the model's tokens, 0 when unknown.
    """

    def __init__(
        self,
        client: ServerClient,
        prompts: Prompts,
        abilities: Abilities,
        identity: GeneratorIdentity,
        vocabulary: int = 0,
    ) -> None:
        self._client = client
        self._prompts = prompts
        self._abilities = abilities
        self._identity = identity
        self._model = identity.model
        self.tokenizer = prompts.tokenizer if isinstance(prompts, TokenPrompts) else None
        self._reader = AnswerReader(self.tokenizer, vocabulary, abilities.raw)
        self._way = (TEXT_WAYS if self.tokenizer is None else TOKEN_WAYS).get(abilities.scoring)
        self._kept: dict[str, Json] = {}
        self._counts = dict.fromkeys(
            (
                "prompts",
                "truncated",
                "merged_system",
                "plain_fallback",
                "special_tokens_split",
                "answers_without_numbers",
                "answers_without_ids",
                "other_fingerprint",
            ),
            0,
        )

    @property
    def identity(self) -> GeneratorIdentity:
        """Everything that can change a number."""
        return self._identity

    @property
    def counts(self) -> dict[str, int]:
        """Running counts by kind: prompts, truncated, merged, fallen back; requests, retries, failed ones."""
        return {**self._counts, **self._client.counts}

    def run(self, tasks: Sequence[Task]) -> list[TaskResult]:
        """Do everything that is wanted of each prompt: one request a greedy answer, one a scored text.

        Args:
            tasks: What is wanted; equal requests are sent once.

        Returns:
            One result a task, in order.

        Raises:
            PromptTooLong: When a prompt does not fit the context window (nothing has been sent then).
            RequestFailed: When a request failed for good; what the others gave is kept for the next call.
            ConfigError: When a text is to be scored and the server cannot.
            ServerUnusable: When the server fails every request alike.
        """
        calls: list[_Call] = []
        plans: list[tuple[int, int]] = []
        for task in tasks:
            first, *others = self._prepared(task.prompt, task.continuations, task.max_new_tokens)
            greedy = task.max_new_tokens > 0
            if greedy:
                calls.append(self._write(first, task.max_new_tokens, tuple(task.stop), temperature=0))
            calls += [self._score(*each) for each in zip(others, task.continuations, strict=True)]
            plans.append((int(greedy), len(task.continuations)))
        found = iter(self._done(calls))
        results = []
        for written, scored in plans:
            answers = [each for each in (next(found) for _ in range(written)) if isinstance(each, Generation)]
            results.append(TaskResult(answers[0] if answers else None, tuple(next(found) for _ in range(scored))))
        return results

    def score(
        self, prompts: Sequence[Prompt | str], continuations: Sequence[str | Sequence[int]]
    ) -> list[Continuation]:
        """Score a given continuation after each prompt, at temperature 1 and without penalties.

        Args:
            prompts: Prompts.
            continuations: Texts, or token ids as a ``Generation`` gave them.

        Returns:
            Exact log-probabilities a token, in order; entropies as bounds.

        Raises:
            ValueError: For an empty continuation, lists of different length, or a prompt that does not fit;
                ``RequestFailed`` is one.
            ConfigError: When the server cannot score given texts.
            ServerUnusable: When the server fails every request alike.
        """
        if len(prompts) != len(continuations):
            raise ValueError(f"{len(prompts)} prompts but {len(continuations)} continuations: one is needed for each")
        tasks = [
            Task(Prompt.of(prompt), continuations=(given if isinstance(given, str) else tuple(given),))
            for prompt, given in zip(prompts, continuations, strict=True)
        ]
        return [result.continuations[0] for result in self.run(tasks)]

    def generate(
        self,
        prompts: Sequence[Prompt | str],
        *,
        max_new_tokens: int = 16,
        n: int = 1,
        temperature: float = 0.0,
        top_p: float = 1.0,
        stop: Sequence[str] = (),
        seed: int = 0,
    ) -> list[list[Generation]]:
        """Write ``n`` answers to every prompt, each in a request of its own with a seed of its own.

        Args:
            prompts: Prompts, any number.
            max_new_tokens: Length limit in tokens, >= 1.
            n: Answers a prompt; more than one needs ``temperature > 0``.
            temperature: 0 is greedy. Log-probabilities are of temperature 1 whatever this is.
            top_p: Nucleus mass in (0, 1].
            stop: Strings that end an answer (left out of it).
            seed: Seed of the sampler, as far as the server honours it.

        Returns:
            One list of ``n`` generations a prompt, in the prompts' order; without tokens and numbers where the
            server gives no log-probabilities of temperature 1.

        Raises:
            ValueError: For settings out of range, or a prompt that does not fit; ``RequestFailed`` is one.
            ServerUnusable: When the server fails every request alike.
        """
        check_sampling(max_new_tokens, n, temperature, top_p, stop)
        calls = []
        for prompt in map(Prompt.of, prompts):
            (prepared,) = self._prepared(prompt, (), max_new_tokens)
            for number in range(n):
                drawn = {"top_p": top_p, "seed": _seed(seed, number)} if temperature else {}
                calls.append(self._write(prepared, max_new_tokens, tuple(stop), temperature=temperature, **drawn))
        written = [each for each in self._done(calls) if isinstance(each, Generation)]
        return [written[start : start + n] for start in range(0, len(written), n)]

    def fits(self, prompt: Prompt | str, room: int = 16) -> bool:
        """Tell whether a prompt and ``room`` more tokens fit the context window; without a tokenizer, always."""
        try:
            self._prompts.prepare(Prompt.of(prompt), room)
        except PromptTooLong:
            return False
        return True

    def render(self, prompt: Prompt | str) -> str:
        """Return the text that the model reads, as far as it is ours, for people to look at."""
        return self._prompts.shown(Prompt.of(prompt))

    def _prepared(
        self, prompt: Prompt, continuations: Sequence[str | tuple[int, ...]], new_tokens: int
    ) -> list[Prepared]:
        """Prepare a prompt for what is to be written after it, and for each text."""
        if continuations and self._way is None:
            raise ConfigError(self._cannot_score())
        rooms = [new_tokens]
        if continuations:
            bare = self._prompts.prepare(prompt, 0)
            # One more: some servers must write a token to score.
            rooms += [len(self._prompts.continuation(given, bare)) + 1 for given in continuations]
        prepared = fit_each(partial(self._prompts.prepare, prompt), rooms)
        self._counts["prompts"] += 1
        self._counts["truncated"] += any(each.truncated for each in prepared)
        for note in self._prompts.notes(prompt):
            self._counts[note] += 1
        return prepared

    def _write(self, prepared: Prepared, new_tokens: int, stop: tuple[str, ...], **settings: Any) -> _Call:
        wanted: dict[str, Any] = {"max_tokens": new_tokens, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}
        if self._abilities.samplers:
            wanted |= NEUTRAL
        if stop:
            wanted["stop"] = list(stop)
        if self._abilities.token_ids:
            wanted["return_token_ids"] = True
        top = self._abilities.top if self._abilities.raw else 0
        body = writing_body(self._model, prepared, top, **{**wanted, **settings})
        return _Call(prepared.path, body, prepared, stop)

    def _score(self, prepared: Prepared, given: str | tuple[int, ...]) -> _Call:
        if self._way is None:
            raise ConfigError(self._cannot_score())
        follows = self._prompts.continuation(given, prepared)
        body = {"model": self._model, **self._way.body(prepared, follows, max(self._abilities.top, 1))}
        return _Call(COMPLETIONS, body, prepared, given=given, follows=follows)

    def _done(self, calls: Sequence[_Call]) -> list[Continuation]:
        """Send what differs, once; when one fails, keep what the others gave for whoever asks again without it."""
        if len(self._kept) > _KEPT:
            self._kept.clear()
        names = [json.dumps([call.path, call.body], sort_keys=True) for call in calls]
        new = {name: call for name, call in zip(names, calls, strict=True) if name not in self._kept}
        outcomes = self._client.post_all([(call.path, call.body) for call in new.values()])
        failed = {name: each for name, each in zip(new, outcomes, strict=True) if isinstance(each, RequestFailed)}
        self._kept.update({name: each for name, each in zip(new, outcomes, strict=True) if isinstance(each, Mapping)})
        read: list[Continuation] = []
        for name, call in zip(names, calls, strict=True):
            try:
                read += [] if name in failed else [self._read(call, self._kept[name])]
            except RequestFailed as failure:
                failed[name] = failure
                del self._kept[name]
        if failed:
            more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            raise RequestFailed(f"{next(iter(failed.values()))}{more}")
        for name in names:
            self._kept.pop(name, None)
        return read

    def _read(self, call: _Call, reply: Json) -> Continuation:
        fingerprint = str(reply.get("system_fingerprint") or "")
        if fingerprint and self._abilities.fingerprint not in ("", fingerprint):
            if not self._counts["other_fingerprint"]:
                warn(f"{self._model}: the server's fingerprint changed while it was asked; numbers may not compare")
            self._counts["other_fingerprint"] += 1
        if call.given is not None and self._way is not None:
            read = self._way.read(reply, call.prepared, call.follows)
            return self._reader.scored(read, call.given, call.prepared.truncated)
        answer = self._reader.written(reply, call.stop, call.prepared.truncated)
        self._counts["answers_without_numbers"] += not answer.logprobs
        self._counts["answers_without_ids"] += not answer.token_ids
        return answer

    def _cannot_score(self) -> str:
        where = self._identity.options.get("base_url", "the server")
        hint = "" if self.tokenizer is not None else " with tokenizer=FOLDER or Hub id of the served model (not given),"
        return (
            f"{self._model} at {where} cannot score given texts ({self._abilities.why_not}). What can:"
            f"{hint} vLLM (prompt_logprobs or echo), llama.cpp (grammar of token ids, with tokenizer), or "
            "backend=transformers; without them only utilities of written answers work (erag)"
        )


def _seed(seed: int, number: int) -> int:
    """Return a 31-bit seed that belongs to the caller's seed and the answer's number."""
    return int.from_bytes(hashlib.sha256(f"{seed}|{number}".encode()).digest()[:4], "big") >> 1


def tokenizer_hash(tokenizer: Any) -> str:
    """Return what tells two tokenizers apart: a digest of their vocabulary."""
    vocabulary: Mapping[str, int] = tokenizer.get_vocab()
    return hashlib.sha256(json.dumps(sorted(vocabulary.items())).encode()).hexdigest()[:16]
