"""The generator on transformers: any causal LM with an attention cache, exact numbers, one prefill a prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from utilitune.generator.answer_text import AnswerText
from utilitune.generator.boundary import Boundary
from utilitune.generator.causal_model import CausalModel
from utilitune.generator.contrast import ContrastWork
from utilitune.generator.decoding import DecodeOrder, Numbers
from utilitune.generator.engine import Engine, Work
from utilitune.generator.protocol import (
    Continuation,
    Generation,
    GeneratorIdentity,
    Prompt,
    Task,
    TaskResult,
)
from utilitune.generator.rendering import FIXED, Renderer
from utilitune.generator.sampling import Sampler
from utilitune.generator.sampling_check import check_sampling
from utilitune.generator.unread_model import UnreadModel
from utilitune.generator.window import Encoded, Window, fit_each, window_of

NUMERICS = "2"
"""Part of every key of the store: raise it when a change here or in the engine, window or boundary changes a number."""


@dataclass(frozen=True)
class _Asked:
    """One prompt with the answers and the scored continuations that are wanted of it."""

    prompt: Prompt
    orders: Sequence[DecodeOrder]
    given: Sequence[str | tuple[int, ...]] = ()


class TransformersGenerator:
    """A ``Generator`` over a transformers model in this process.

    Use ``load_generator`` unless model and tokenizer are at hand already.

    Args:
        model: A ``...ForCausalLM``, put into evaluation mode, or an ``UnreadModel``, read when first needed.
        tokenizer: Its tokenizer.
        name: Name for messages and for the identity.
        revision: Hub revision or weight hash.
        renderer: Renderer of its chat template; made from the tokenizer when not given.
        adapter: Adapter id and hash, for the identity.
        batch_tokens: Tokens in a batch, padding included.
        overflow: ``"truncate"`` cuts passages of over-long prompts, ``"error"`` refuses them.

    Raises:
        ConfigError: For a template or policy that does not work.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "local",
        revision: str = "",
        renderer: Renderer | None = None,
        adapter: str = "",
        batch_tokens: int = 8192,
        overflow: str = "truncate",
    ) -> None:
        self._given = model
        self._batch_tokens = batch_tokens
        self.tokenizer = tokenizer
        self._renderer = renderer or Renderer(tokenizer, model=name)
        self._answer_text = AnswerText(tokenizer)
        self._window = Window(window_of(model.config, tokenizer), self._encode, tokenizer, overflow)
        self._counts = {
            "prompts": 0,
            "truncated": 0,
            "merged_system": 0,
            "plain_fallback": 0,
            "special_tokens_split": 0,
        }
        self._identity = GeneratorIdentity(
            model=name,
            revision=revision,
            backend="transformers",
            dtype=str(model.dtype).removeprefix("torch."),
            adapter=adapter,
            template=self._renderer.template_hash,
            system_role=self._renderer.system_role,
            max_length=self._window.limit,
            options={
                "overflow": overflow,
                "numerics": NUMERICS,
                "template_variables": json.dumps(FIXED, sort_keys=True),
            },
        )

    @cached_property
    def model(self) -> Any:
        """The model in evaluation mode; its weights are read when this is first asked for."""
        model = self._given.read() if isinstance(self._given, UnreadModel) else self._given
        model.eval()
        return model

    @cached_property
    def _causal(self) -> CausalModel:
        return CausalModel(self.model)

    @cached_property
    def _boundary(self) -> Boundary:
        return Boundary(self.tokenizer, self._causal.vocabulary)

    @cached_property
    def _engine(self) -> Engine:
        return Engine(self._causal, self._answer_text, _end_ids(self.model, self.tokenizer), self._batch_tokens)

    @property
    def identity(self) -> GeneratorIdentity:
        """Everything that can change a number."""
        return self._identity

    @property
    def counts(self) -> dict[str, int]:
        """Running counts by kind: prompts seen, truncated, merged, fallen back to plain, batches halved."""
        engine = self.__dict__.get("_engine")  # asking for the property would read the weights
        return {**self._counts, "out_of_memory": engine.out_of_memory if engine else 0}

    def run(self, tasks: Sequence[Task]) -> list[TaskResult]:
        """Do everything that is wanted of each prompt from one prefill (greedy answers, scored texts).

        Args:
            tasks: What is wanted; equal prompts are prefilled once, equal wishes met once.

        Returns:
            One result a task, in order.

        Raises:
            PromptTooLong: When a prompt does not fit the context window (nothing has been run then).
            ValueError: For an empty continuation.
        """
        orders: list[list[DecodeOrder]] = [
            [DecodeOrder(task.max_new_tokens, tuple(task.stop))] if task.max_new_tokens > 0 else [] for task in tasks
        ]
        asked = [_Asked(task.prompt, orders[place], task.continuations) for place, task in enumerate(tasks)]
        results = []
        for answers, scored in self._run(asked):
            results.append(TaskResult(answers[0] if answers else None, tuple(scored)))
        return results

    def score(
        self, prompts: Sequence[Prompt | str], continuations: Sequence[str | Sequence[int]]
    ) -> list[Continuation]:
        """Score a given continuation after each prompt.

        Args:
            prompts: Prompts; equal prompts are prefilled once.
            continuations: Texts, or token ids as a ``Generation`` gave them.

        Returns:
            Exact log-probabilities and entropies a token, at temperature 1, in order.

        Raises:
            ValueError: For an empty continuation, lists of different length, or a prompt that does not fit.
        """
        if len(prompts) != len(continuations):
            raise ValueError(f"{len(prompts)} prompts but {len(continuations)} continuations: one is needed for each")
        asked = [
            _Asked(Prompt.of(prompt), (), (given if isinstance(given, str) else tuple(given),))
            for prompt, given in zip(prompts, continuations, strict=True)
        ]
        return [scored[0] for _, scored in self._run(asked)]

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
            ValueError: For an empty continuation, lists of different length, a weight out of range, prompts of which
                only one hands trailing spaces to the text, or a prompt that does not fit.
        """
        if not len(prompts) == len(others) == len(continuations):
            raise ValueError(f"{len(prompts)} prompts, {len(others)} others and {len(continuations)} continuations")
        if not 0 <= alpha < float("inf"):
            raise ValueError(f"alpha is {alpha}, it must be finite and at least 0")
        work: list[ContrastWork] = []
        truncated: list[bool] = []
        for prompt, other, text in zip(map(Prompt.of, prompts), map(Prompt.of, others), continuations, strict=True):
            moved = self._moved(prompt)
            if moved != self._moved(other):
                raise ValueError(
                    "the two prompts of a contrast end in different spaces: the text would have two spellings"
                )
            ids = tuple(self._boundary.continuation(text, moved))
            fitted = [self._window.fit(each, len(ids)) for each in (prompt, other)]
            for each, encoded in zip((prompt, other), fitted, strict=True):
                self._count(each, encoded.truncated)
            work.append(ContrastWork(fitted[0].ids, fitted[1].ids, ids, alpha))
            truncated.append(any(encoded.truncated for encoded in fitted))
        self._engine.contrast(work)
        return [
            self._continuation(text, Numbers(item.text, item.logprobs, item.entropies), cut)
            for text, item, cut in zip(continuations, work, truncated, strict=True)
        ]

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
        """Write ``n`` answers to every prompt from one prefill of it.

        The i-th answer depends on model, prompt, seed and i alone; equal prompts get equal answers.

        Args:
            prompts: Prompts, any number.
            max_new_tokens: Length limit in tokens, >= 1.
            n: Answers a prompt; more than one needs ``temperature > 0``.
            temperature: 0 is greedy. Log-probabilities and entropies are of temperature 1 whatever this is.
            top_p: Nucleus mass in (0, 1].
            stop: Strings that end an answer (left out of it).
            seed: Seed of the sampler.

        Returns:
            One list of ``n`` generations a prompt, in the prompts' order; texts are stripped of outer white space.

        Raises:
            ValueError: For settings out of range, or a prompt that does not fit.
        """
        check_sampling(max_new_tokens, n, temperature, top_p, stop)
        samplers = [Sampler(temperature, top_p, seed, number) for number in range(n)] if temperature else [None]
        orders = [DecodeOrder(max_new_tokens, tuple(stop), sampler) for sampler in samplers]
        return [answers for answers, _ in self._run([_Asked(Prompt.of(p), orders) for p in prompts])]

    def fits(self, prompt: Prompt | str, room: int = 16) -> bool:
        """Tell whether a prompt and ``room`` more tokens fit the context window (cut, if the policy allows)."""
        try:
            self._window.fit(Prompt.of(prompt), room)
        except ValueError:
            return False
        return True

    def render(self, prompt: Prompt | str) -> str:
        """Return the text that the model reads, for people to look at."""
        return self._renderer.render(Prompt.of(prompt))[0]

    def _encode(self, prompt: Prompt) -> Encoded:
        text, chat = self._renderer.render(prompt)
        if chat:
            # The template has written its own special tokens.
            return Encoded(tuple(self._boundary.encode(text)), "")
        ids, moved = self._boundary.plain_prompt(text)
        return Encoded(tuple(ids), moved)

    def _run(self, asked: Sequence[_Asked]) -> list[tuple[list[Generation], list[Continuation]]]:
        """Merge wishes by prompt, run them, and hand each its results."""
        work: dict[tuple[int, ...], Work] = {}
        plans = []
        for wish in asked:
            moved = self._moved(wish.prompt) if any(isinstance(text, str) for text in wish.given) else ""
            ids = [tuple(self._boundary.continuation(text, moved)) for text in wish.given]
            rooms = [order.max_new_tokens for order in wish.orders] + [len(own) for own in ids]
            places = []
            for encoded in fit_each(partial(self._window.fit, wish.prompt), rooms):
                places.append((encoded, work.setdefault(encoded.ids, Work(encoded.ids))))
            ordered = len(wish.orders)
            orders = [(order, *place) for order, place in zip(wish.orders, places[:ordered], strict=True)]
            texts = [(text, own, *place) for text, own, place in zip(wish.given, ids, places[ordered:], strict=True)]
            for order, _, item in orders:
                item.decode[order] = None
            for _, own, _, item in texts:
                item.score[own] = None
            self._count(wish.prompt, any(encoded.truncated for encoded, _ in places))
            plans.append((orders, texts))
        self._engine.run(list(work.values()))
        results = []
        for orders, texts in plans:
            answers = [self._generation(item.decoded[order], order, cut.truncated) for order, cut, item in orders]
            scored = [self._continuation(text, item.scored[own], cut.truncated) for text, own, cut, item in texts]
            results.append((answers, scored))
        return results

    def _moved(self, prompt: Prompt) -> str:
        text, chat = self._renderer.render(prompt)
        return "" if chat else text[len(text.rstrip(" ")) :]

    def _count(self, prompt: Prompt, truncated: bool) -> None:
        self._counts["prompts"] += 1
        self._counts["truncated"] += truncated
        self._counts["special_tokens_split"] += self._renderer.is_armed(prompt)
        if prompt.messages and not self._renderer.is_chat:
            self._counts["plain_fallback"] += 1
        if self._renderer.system_role == "merged" and any(role == "system" for role, _ in prompt.messages):
            self._counts["merged_system"] += 1

    def _continuation(self, given: str | tuple[int, ...], numbers: Numbers, truncated: bool) -> Continuation:
        return Continuation(
            text=given if isinstance(given, str) else self._answer_text.decode(numbers.ids),
            tokens=self._answer_text.surfaces(numbers.ids),
            token_ids=numbers.ids,
            logprobs=numbers.logprobs,
            entropies=numbers.entropies,
            truncated=truncated,
        )

    def _generation(self, numbers: Numbers, order: DecodeOrder, truncated: bool) -> Generation:
        own, text = self._answer_text.own(numbers.ids, numbers.ended_by == "end", order.stop)
        return Generation(
            text=text,
            tokens=self._answer_text.surfaces(numbers.ids[:own]),
            token_ids=numbers.ids[:own],
            logprobs=numbers.logprobs[:own],
            entropies=numbers.entropies[:own],
            truncated=truncated,
            finish="length" if numbers.ended_by == "length" else "stop",
        )


def _end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Collect what ends an answer: the generation config's ids and the tokenizer's."""
    ends: set[int] = set()
    for given in (getattr(model.generation_config, "eos_token_id", None), tokenizer.eos_token_id):
        ends.update([given] if isinstance(given, int) else given or ())
    return frozenset(ends)
