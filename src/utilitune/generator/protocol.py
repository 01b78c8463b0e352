"""The generator LLM behind one interface: what every backend takes and gives."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Prompt:
    """What the generator is asked.

    Attributes:
        messages: Chat messages as ``(role, content)`` pairs; used when the model has a chat template.
        plain: The same request as plain text; used when it has none. When empty, the messages' contents are
            joined by blank lines.
        trim: Texts that occur verbatim in the prompt and may be shortened from their end when the prompt does
            not fit the context window (the passages). Nothing else is ever cut.
    """

    messages: tuple[tuple[str, str], ...] = ()
    plain: str = ""
    trim: tuple[str, ...] = ()

    @classmethod
    def of(cls, prompt: Prompt | str) -> Prompt:
        """Return ``prompt`` itself, or a plain-text prompt made of a string (no chat template is applied)."""
        return prompt if isinstance(prompt, Prompt) else cls(plain=prompt)


@dataclass(frozen=True)
class Continuation:
    """Numbers of one text under one prompt; one entry a token, all natural-log units (nats).

    Attributes:
        text: The continuation's text.
        tokens: Token surfaces.
        token_ids: Token ids in the generator's vocabulary (empty when the backend gives none).
        logprobs: ln p(token | prompt, earlier tokens) at temperature 1, no penalties.
        entropies: Exact entropies over the full vocabulary at the same positions, or ``None`` when the
            backend cannot give them.
        entropy_bounds: ``(lower, upper)`` a token where exact entropies are out of reach.
        covered_mass: Probability mass behind the bounds, a token.
        truncated: Whether passages of the prompt were shortened to fit.
    """

    text: str
    tokens: tuple[str, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    entropies: tuple[float, ...] | None
    entropy_bounds: tuple[tuple[float, float], ...] | None = None
    covered_mass: tuple[float, ...] | None = None
    truncated: bool = False


@dataclass(frozen=True)
class Generation(Continuation):
    """A continuation that the generator wrote itself.

    ``token_ids`` are the tokens of the answer alone: end-of-sequence and whatever follows a stop string are
    left out, unless that leaves nothing, in which case the one end token is kept so that there is a number.

    Attributes:
        finish: ``"stop"`` (end token or stop string) or ``"length"``.
    """

    finish: str = "length"


@dataclass(frozen=True)
class GeneratorIdentity:
    """Everything about a generator that can change a number.

    Attributes:
        model: Model id as the user gave it.
        revision: Hub revision, or hash of the weights for a local folder.
        backend: ``"transformers"``, ...
        dtype: Arithmetic type, such as ``"float32"``.
        adapter: Adapter id and hash, ``""`` without one.
        template: Hash of the chat template, ``"plain"`` without one.
        system_role: ``"native"`` or ``"merged"`` (instruction moved into the first user turn).
        max_length: Context window in tokens, as enforced.
        options: Anything else that matters, by name.
    """

    model: str
    revision: str
    backend: str
    dtype: str
    adapter: str = ""
    template: str = "plain"
    system_role: str = "native"
    max_length: int = 0
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def as_dict(self) -> dict[str, object]:
        """Return the fields as JSON-ready values."""
        return asdict(self)

    def key(self) -> str:
        """Return the SHA-256 hex digest of all fields."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Task:
    """All that is wanted of one prompt, so that a backend can prefill it once.

    Attributes:
        prompt: The prompt.
        max_new_tokens: Length limit of a greedy answer; 0 when none is wanted.
        stop: Stop strings of the greedy answer.
        continuations: Texts, or token ids as a greedy answer gave them, to be scored after the prompt.
    """

    prompt: Prompt
    max_new_tokens: int = 0
    stop: tuple[str, ...] = ()
    continuations: tuple[str | tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class TaskResult:
    """Answer to a ``Task``, in the same order of continuations.

    Attributes:
        answer: The greedy answer, ``None`` when none was wanted.
        continuations: One entry a wanted continuation.
    """

    answer: Generation | None
    continuations: tuple[Continuation, ...]


@runtime_checkable
class Generator(Protocol):
    """An LLM that writes and scores. Numbers in, numbers out: no tensors cross this seam."""

    @property
    def identity(self) -> GeneratorIdentity:
        """Everything that can change a number."""
        ...

    @property
    def counts(self) -> dict[str, int]:
        """Running counts of what was truncated, merged, fell back, by kind."""
        ...

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
        """Write ``n`` answers to every prompt.

        Args:
            prompts: Prompts, any number.
            max_new_tokens: Length limit in tokens, >= 1.
            n: Answers a prompt; more than one needs ``temperature > 0``.
            temperature: 0 is greedy. Log-probabilities and entropies are of temperature 1 whatever this is.
            top_p: Nucleus mass in (0, 1].
            stop: Strings that end an answer (left out of it).
            seed: Seed of the sampler; the same seed gives the same answers for a prompt whatever its batch
                mates.

        Returns:
            One list of ``n`` generations a prompt, in the prompts' order.
        """
        ...

    def score(
        self, prompts: Sequence[Prompt | str], continuations: Sequence[str | Sequence[int]]
    ) -> list[Continuation]:
        """Score a given continuation after each prompt (two lists of equal length).

        Args:
            prompts: Prompts; equal prompts are prefilled once.
            continuations: Texts, or token ids as a ``Generation`` gave them.

        Returns:
            Exact log-probabilities and entropies a token, in order. Every result has at least one token.

        Raises:
            ValueError: For an empty continuation, or lists of different length.
        """
        ...

    def run(self, tasks: Sequence[Task]) -> list[TaskResult]:
        """Do everything that is wanted of each prompt from one prefill (greedy answers, scored texts)."""
        ...


@runtime_checkable
class ContrastScorer(Protocol):
    """A generator that can also set one prompt against another; not every backend has the logits for it."""

    def contrast(
        self,
        prompts: Sequence[Prompt | str],
        others: Sequence[Prompt | str],
        continuations: Sequence[str],
        *,
        alpha: float,
    ) -> list[Continuation]:
        """Score texts under ``softmax((1 + alpha) z - alpha z')``, logits after a prompt and after its other one.

        Args:
            prompts: Prompts that count for.
            others: Prompts that count against, as many.
            continuations: Texts, as many.
            alpha: Weight of the others, finite and >= 0; at 0 this is ``score``.

        Returns:
            Exact log-probabilities and entropies a token of the contrasted distribution, in order.

        Raises:
            ValueError: For an empty continuation, lists of different length, a weight out of range, or a prompt that
                does not fit.
        """
        ...
