"""Texts scored under the contrast of two prompts, by generators that can."""

from __future__ import annotations

from collections.abc import Sequence

from utilitune.generator.protocol import ContrastScorer, Generator
from utilitune.scoring.failure import Answered, Failure
from utilitune.scoring.schedule import Part


def contrasted_answers(generator: Generator, parts: Sequence[Part]) -> Answered:
    """Score every part that is a contrast, all of one ``alpha`` in one call.

    Args:
        generator: The generator.
        parts: Parts with a ``contrast``.

    Returns:
        A response, or why there is none, by key.
    """
    if not isinstance(generator, ContrastScorer):
        reason = f"backend {generator.identity.backend!r} cannot contrast two prompts; the transformers backend can"
        return {part.key: Failure(reason) for part in parts}
    by_alpha: dict[float, list[Part]] = {}
    for part in parts:
        if part.contrast is not None:
            by_alpha.setdefault(part.contrast.alpha, []).append(part)
    answered: Answered = {}
    for alpha, group in by_alpha.items():
        answered.update(_contrasted(generator, group, alpha))
    return answered


def _contrasted(generator: ContrastScorer, parts: Sequence[Part], alpha: float) -> Answered:
    """Score; when the generator refuses, halve until the culprits stand alone."""
    asked = [part.contrast for part in parts if part.contrast is not None]
    try:
        scored = generator.contrast(
            [each.prompt for each in asked], [each.other for each in asked], [each.text for each in asked], alpha=alpha
        )
    except ValueError as error:
        if len(parts) == 1:
            return {parts[0].key: Failure(f"the generator refused the prompt: {error}")}
        middle = len(parts) // 2
        return {**_contrasted(generator, parts[:middle], alpha), **_contrasted(generator, parts[middle:], alpha)}
    if len(scored) != len(parts) or not all(each.logprobs for each in scored):
        raise RuntimeError("the generator did not return one scored text a contrast")
    return {part.key: each for part, each in zip(parts, scored, strict=True)}
