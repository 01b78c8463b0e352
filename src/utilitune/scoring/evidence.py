"""What a label was computed from, in JSON-ready form, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from utilitune.generator.protocol import Continuation, Generation
from utilitune.scoring.contexts import Template


def evidence(prompt: Template, answers: Mapping[str, Continuation]) -> dict[str, Any]:
    """Describe the answers under each context.

    Args:
        prompt: The prompt that was rendered.
        answers: Name of the context -> tokens and numbers under it. The first one is the answer itself.

    Returns:
        ``prompt`` (name and hash), ``answer`` (text), ``truncated`` (any passage shortened) and, for every
        context, what ``spelled_out`` gives.
    """
    facts: dict[str, Any] = {"prompt": prompt.name, "prompt_hash": prompt.hash}
    if answers:
        facts["answer"] = next(iter(answers.values())).text
    facts["truncated"] = any(answer.truncated for answer in answers.values())
    for name, answer in answers.items():
        facts[name] = spelled_out(answer)
    return facts


def spelled_out(answer: Continuation) -> dict[str, Any]:
    """Return an answer's text, tokens, ids, log-probabilities and entropies at full precision.

    Args:
        answer: An answer, or a text scored under another context.

    Returns:
        ``text``, ``tokens``, ``ids``, ``logprobs``, ``entropies`` (``None`` where the backend gives no exact ones),
        ``truncated``, and for an answer ``finish``: ``stop`` or ``length``.
    """
    facts: dict[str, Any] = {
        "text": answer.text,
        "tokens": list(answer.tokens),
        "ids": list(answer.token_ids),
        "logprobs": list(answer.logprobs),
        "entropies": None if answer.entropies is None else list(answer.entropies),
        "truncated": answer.truncated,
    }
    if isinstance(answer, Generation):
        facts["finish"] = answer.finish
    return facts


def answers_in(facts: Mapping[str, Any]) -> dict[str, Continuation]:
    """Return the answers that a row's evidence spells out.

    Args:
        facts: Evidence of a label row, as ``evidence`` made it or as it was read from a file.

    Returns:
        Name of the context -> answer; nothing for evidence of another form, or of one that was written before token ids
        and flags were part of it.
    """
    return {name: _answer(each) for name, each in facts.items() if isinstance(each, Mapping) and set(each) >= _FIELDS}


_FIELDS = frozenset({"text", "tokens", "ids", "logprobs", "entropies", "truncated"})


def _answer(facts: Mapping[str, Any]) -> Continuation:
    entropies = facts["entropies"]
    given = (
        facts["text"],
        tuple(facts["tokens"]),
        tuple(facts["ids"]),
        tuple(facts["logprobs"]),
        None if entropies is None else tuple(entropies),
        None,
        None,
        facts["truncated"],
    )
    return Generation(*given, facts["finish"]) if "finish" in facts else Continuation(*given)
