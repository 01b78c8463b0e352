"""What a label was computed from, in JSON-ready form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from utilitune.generator.protocol import Continuation
from utilitune.scoring.contexts import Template


def evidence(prompt: Template, answers: Mapping[str, Continuation]) -> dict[str, Any]:
    """Describe the answers under each context.

    Args:
        prompt: The prompt that was rendered.
        answers: Name of the context -> tokens and numbers under it. The first one is the answer itself.

    Returns:
        ``prompt`` (name and hash), ``answer`` (text), ``truncated`` (any passage shortened) and, for every
        context, its texts, tokens, log-probabilities and entropies at full precision.
    """
    facts: dict[str, Any] = {"prompt": prompt.name, "prompt_hash": prompt.hash}
    if answers:
        facts["answer"] = next(iter(answers.values())).text
    facts["truncated"] = any(answer.truncated for answer in answers.values())
    for name, answer in answers.items():
        facts[name] = {
            "text": answer.text,
            "tokens": list(answer.tokens),
            "logprobs": list(answer.logprobs),
            "entropies": None if answer.entropies is None else list(answer.entropies),
        }
    return facts
