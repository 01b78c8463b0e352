"""What a label was computed from, in JSON-ready form, and back."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
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
        Name of the context -> answer, NaN for a number that was not finite; nothing for evidence of another form, or of
        one that was written before token ids and flags were part of it.

    Raises:
        ValueError: If the parts of an answer do not fit each other.
    """
    return {
        name: _answer(name, each) for name, each in facts.items() if isinstance(each, Mapping) and set(each) >= _FIELDS
    }


_FIELDS = frozenset({"text", "tokens", "ids", "logprobs", "entropies", "truncated"})
_KINDS: dict[str, tuple[type, ...]] = {
    "tokens": (str,),
    "ids": (int,),
    "logprobs": (int, float),
    "entropies": (int, float),
}


def _answer(name: str, facts: Mapping[str, Any]) -> Continuation:
    parts = {part: _part(name, part, facts[part]) for part in _KINDS if part != "entropies" or facts[part] is not None}
    counts = {part: len(found) for part, found in parts.items() if part != "ids" or found}
    if len(set(counts.values())) > 1:
        raise ValueError(f"{name}: {', '.join(f'{count} {part}' for part, count in counts.items())}; expected as many")
    text, truncated, finish = facts["text"], facts["truncated"], facts.get("finish", "stop")
    if not (isinstance(text, str) and isinstance(truncated, bool) and finish in ("stop", "length")):
        raise ValueError(f"{name}: text {text!r}, truncated {truncated!r}, finish {finish!r}; not as they were written")
    given = (text, parts["tokens"], parts["ids"], parts["logprobs"], parts.get("entropies"), None, None, truncated)
    return Generation(*given, finish) if "finish" in facts else Continuation(*given)


def _part(name: str, part: str, found: Any) -> tuple[Any, ...]:
    """Return one list of an answer; files have null where a number was not finite."""
    kinds = _KINDS[part]
    if float in kinds and isinstance(found, list | tuple):
        found = [nan if each is None else each for each in found]
    if not isinstance(found, list | tuple) or not all(isinstance(each, kinds) for each in found):
        raise ValueError(f"{name}: {part} {repr(found)[:60]}; expected a list of {kinds[-1].__name__}")
    return tuple(found)
