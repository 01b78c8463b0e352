"""Draws from the generator: one call a kind of sample, one prefill a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from utilitune.generator.protocol import Generation, Generator, Prompt
from utilitune.scoring.failure import Answered, Failure
from utilitune.scoring.protocol import Sample
from utilitune.scoring.schedule import Part


def drawn_answers(generator: Generator, parts: Sequence[Part]) -> Answered:
    """Draw every sample that a part is of, whole: an answer keeps its number whatever else is wanted.

    Args:
        generator: The generator.
        parts: Parts with a ``draw``.

    Returns:
        A response, or why there is none, by key.
    """
    # Samples that differ in nothing but the prompt go in one call.
    kinds: dict[Sample, dict[Prompt, None]] = {}
    for part in parts:
        if part.draw is not None:
            kinds.setdefault(replace(part.draw.of, prompt=Prompt()), {})[part.prompt] = None
    drawn: dict[Sample, Sequence[Generation] | Failure] = {}
    for kind, prompts in kinds.items():
        drawn.update(_drawn(generator, kind, list(prompts)))
    answered: Answered = {}
    for part in parts:
        if part.draw is not None:
            answers = drawn[part.draw.of]
            answered[part.key] = answers if isinstance(answers, Failure) else _usable(answers[part.draw.number])
    return answered


def _drawn(generator: Generator, kind: Sample, prompts: list[Prompt]) -> dict[Sample, Sequence[Generation] | Failure]:
    """Draw; when the generator refuses, halve until the culprits stand alone."""
    try:
        samples = generator.generate(
            prompts,
            n=kind.n,
            temperature=kind.temperature,
            top_p=kind.top_p,
            seed=kind.seed,
            max_new_tokens=kind.max_new_tokens,
            stop=kind.stop,
        )
    except ValueError as error:
        if len(prompts) == 1:
            return {replace(kind, prompt=prompts[0]): Failure(f"the generator refused the prompt: {error}")}
        middle = len(prompts) // 2
        return {**_drawn(generator, kind, prompts[:middle]), **_drawn(generator, kind, prompts[middle:])}
    if len(samples) != len(prompts) or any(len(answers) != kind.n for answers in samples):
        raise RuntimeError(f"the generator did not return {kind.n} answers for each of {len(prompts)} prompts")
    return {replace(kind, prompt=prompt): answers for prompt, answers in zip(prompts, samples, strict=True)}


def _usable(answer: Generation) -> Generation | Failure:
    return answer if answer.logprobs else Failure("the generator gave no token")
