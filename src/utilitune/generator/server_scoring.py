"""Ways to get the log-probabilities of given tokens out of a server. All at temperature 1, without penalties.

``prompt-logprobs`` (vLLM), ``echo`` and ``echo-1`` (vLLM, older OpenAI completions) read them off the prompt;
``token-grammar`` (llama.cpp) makes the server write exactly the given tokens and reads what it says of each; its
log-probabilities are those before samplers and grammar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from utilitune.generator.server_error import RequestFailed
from utilitune.generator.server_prompt import Prepared
from utilitune.generator.server_reply import Position, first_choice, positions, prompt_positions

PLAIN: Mapping[str, Any] = {"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}
"""Settings of every scoring request."""

Given = tuple[int, ...] | str


class ScoringWay(Protocol):
    """One way: the request, and how to read its reply."""

    def body(self, prompt: Prepared, given: Given, top: int) -> dict[str, Any]:
        """Return the request's body, without the model; ``top`` is how many likeliest tokens to ask for."""
        ...

    def read(self, reply: Mapping[str, Any], prompt: Prepared, given: Given) -> list[Position]:
        """Return one position a token of ``given``; ``RequestFailed`` when the reply does not hold them all."""
        ...


class PromptLogprobs:
    """vLLM's ``prompt_logprobs``: an object by token id at each position of the prompt, the first one null."""

    def body(self, prompt: Prepared, given: Given, top: int) -> dict[str, Any]:
        """Ask for one new token (no fewer are allowed) and for the prompt's numbers."""
        return {**PLAIN, "prompt": _ids(prompt.given) + _ids(given), "max_tokens": 1, "prompt_logprobs": top}

    def read(self, reply: Mapping[str, Any], prompt: Prepared, given: Given) -> list[Position]:
        """Take the entries after the prompt's own, by id."""
        entries = first_choice(reply).get("prompt_logprobs")
        before, ids = len(prompt.given), _ids(given)
        found = len(entries) if isinstance(entries, list) else 0
        if not isinstance(entries, list) or found != before + len(ids):
            raise RequestFailed(f"{found} prompt log-probabilities came for {before + len(ids)} prompt tokens")
        return _complete(prompt_positions(entries[before:], ids))


@dataclass(frozen=True)
class Echo:
    """``echo`` with ``logprobs``: the prompt comes back in tokens, with numbers.

    Attributes:
        new_tokens: 0, or 1 for servers that refuse to write nothing; what they write is cut off.
    """

    new_tokens: int

    def body(self, prompt: Prepared, given: Given, top: int) -> dict[str, Any]:
        """Ask for the prompt and what follows, echoed."""
        whole: Any = prompt.given + given if isinstance(given, str) else _ids(prompt.given) + _ids(given)  # type: ignore[operator]
        return {**PLAIN, "prompt": whole, "max_tokens": self.new_tokens, "echo": True, "logprobs": top}

    def read(self, reply: Mapping[str, Any], prompt: Prepared, given: Given) -> list[Position]:
        """Count tokens from the seam when both sides are ids, else spell the given text from the end."""
        read = positions(first_choice(reply))
        if not isinstance(given, str):
            end = len(prompt.given) + len(given)
            if not end <= len(read) <= end + self.new_tokens:
                raise RequestFailed(f"{len(read)} log-probabilities came back for {end} prompt tokens")
            return _complete(read[len(prompt.given) : end])
        usage = reply.get("usage")
        count = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
        count = count if isinstance(count, int) else len(read) - self.new_tokens
        if not 0 < count <= len(read) <= count + self.new_tokens:
            raise RequestFailed(f"{len(read)} log-probabilities came back for {count} prompt tokens")
        return _complete(_spelling(read[:count], given))


class TokenGrammar:
    """llama.cpp: a grammar of token ids leaves one text to write, and the numbers are those without the grammar."""

    def body(self, prompt: Prepared, given: Given, top: int) -> dict[str, Any]:
        """Ask for exactly the given tokens, with no sampler that could drop one before the grammar looks."""
        rule = " ".join(f"<[{token}]>" for token in _ids(given))
        samplers = {"top_k": 0, "min_p": 0, "typical_p": 1, "repeat_penalty": 1, "post_sampling_probs": False}
        wanted = {"max_tokens": len(given), "logprobs": top, "grammar": f"root ::= {rule}"}
        return {**PLAIN, **samplers, **wanted, "prompt": _ids(prompt.given)}

    def read(self, reply: Mapping[str, Any], prompt: Prepared, given: Given) -> list[Position]:
        """Check that the server wrote the given ids and no other."""
        read = positions(first_choice(reply))
        written = tuple(each.token_id for each in read)
        if written != tuple(_ids(given)):
            raise RequestFailed(f"the server wrote {len(written)} tokens under a grammar of {len(given)} given ones")
        return _complete(read)


TOKEN_WAYS: Mapping[str, ScoringWay] = {
    "prompt-logprobs": PromptLogprobs(),
    "echo": Echo(0),
    "echo-1": Echo(1),
    "token-grammar": TokenGrammar(),
}
"""Ways with token ids, in the order in which they are tried."""

TEXT_WAYS: Mapping[str, ScoringWay] = {"echo": Echo(0), "echo-1": Echo(1)}
"""Ways without a tokenizer, in the order in which they are tried."""


def _ids(given: Any) -> list[int]:
    return list(given)


def _complete(read: list[Position]) -> list[Position]:
    """Refuse a missing number: it is never 0."""
    missing = sum(each.logprob is None for each in read)
    if missing or not read:
        raise RequestFailed(f"the server left out {missing} of {len(read)} log-probabilities")
    return read


def _spelling(read: list[Position], text: str) -> list[Position]:
    """Return the last tokens that spell ``text``; a token that begins before it belongs to neither side."""
    spelled = ""
    for count in range(1, len(read) + 1):
        spelled = read[-count].token + spelled
        if spelled == text:
            return read[-count:]
        if not text.endswith(spelled):
            break
    merged = spelled.endswith(text)
    reason = "one token holds the end of the prompt and the beginning of the text" if merged else "other tokens came"
    raise RequestFailed(
        f"the tokens of the server do not spell the text after the prompt: {reason}; with tokenizer=FOLDER the text is "
        "encoded alone"
    )
