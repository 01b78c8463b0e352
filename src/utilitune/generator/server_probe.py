"""What a server really gives, found out by asking before the first row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import fsum
from typing import Any

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Prompt
from utilitune.generator.server_client import ServerClient
from utilitune.generator.server_error import RequestFailed, ServerUnusable
from utilitune.generator.server_prompt import (
    CHAT,
    COMPLETIONS,
    Prepared,
    Prompts,
    TextPrompts,
    TokenPrompts,
    surfaces_differ,
)
from utilitune.generator.server_reply import Position, first_choice, positions
from utilitune.generator.server_scoring import TEXT_WAYS, TOKEN_WAYS, Given, ScoringWay

# Its greedy next word is plain to any language model; the other prompt's is not.
_SURE = Prompt(plain="one two three one two three one two", messages=(("user", "Say one word."),))
_OPEN = Prompt(plain="The", messages=(("user", "Name anything."),))
_LIKELY, _UNLIKELY = " three", " zebra"
NEUTRAL: Mapping[str, Any] = {"top_k": -1, "min_p": 0, "repetition_penalty": 1, "repeat_penalty": 1}
"""Samplers that vLLM and llama.cpp fill in by themselves where nothing is said, switched off."""

# Two passes of one low-precision model differ by less; another temperature, prompt or seam by more.
_SAME_NATS = 0.5


@dataclass(frozen=True)
class ServedModel:
    """What ``/models`` says of a model; 0 or empty where it says nothing.

    Attributes:
        name: Its id there.
        limit: Context window in tokens.
        vocabulary: Number of token ids.
    """

    name: str = ""
    limit: int = 0
    vocabulary: int = 0


@dataclass(frozen=True)
class Abilities:
    """What a server can do for us.

    Attributes:
        top: How many likeliest tokens it names, 0 when it gives no log-probabilities of what it writes.
        raw: Whether its log-probabilities are of temperature 1 whatever temperature it writes at.
        samplers: Whether it lets its own default samplers be switched off (``NEUTRAL``).
        token_ids: Whether it takes ``return_token_ids`` and gives the ids of what it wrote.
        scoring: Name of the way that given texts are scored in, empty when there is none.
        why_not: Why each way of scoring failed.
        fingerprint: Its ``system_fingerprint``.
    """

    top: int
    raw: bool
    samplers: bool = False
    token_ids: bool = False
    scoring: str = ""
    why_not: str = ""
    fingerprint: str = ""


def served_model(client: ServerClient, model: str) -> ServedModel:
    """Look a model up in the server's list.

    Args:
        client: The server.
        model: Name of the model.

    Returns:
        What the list says; nothing when the server has no list or not this name in it.

    Raises:
        ServerUnusable: When the server does not answer, or refuses the key.
    """
    try:
        listed = client.get("/models").get("data")
    except RequestFailed as failure:
        if not failure.heard:
            raise ServerUnusable(f"{failure}; is it running, and base_url right?") from failure
        return ServedModel()
    named = {str(each.get("id")): each for each in listed or () if isinstance(each, Mapping)}
    # llama.cpp serves one model and ignores the name.
    entry = named.get(model) or (next(iter(named.values())) if len(named) == 1 else None)
    if entry is None:
        return ServedModel()
    meta: Mapping[str, Any] = entry.get("meta") or {}
    limit = entry.get("max_model_len") or meta.get("n_ctx") or 0
    return ServedModel(str(entry.get("id")), int(limit), int(meta.get("n_vocab") or 0))


def writing_body(model: str, prepared: Prepared, top: int, **settings: Any) -> dict[str, Any]:
    """Return the body of a request for a written answer with the log-probabilities of its ``top`` likeliest tokens."""
    wanted: dict[str, Any] = {}
    if top:
        wanted = {"logprobs": True, "top_logprobs": top} if prepared.path == CHAT else {"logprobs": top}
    return {"model": model, **prepared.body(), **wanted, **settings}


class Probe:
    """Asks one server what it can do.

    Args:
        client: The server.
        model: Name of the model.
        prompts: The form that prompts are sent in.
    """

    def __init__(self, client: ServerClient, model: str, prompts: Prompts) -> None:
        self._client = client
        self._model = model
        self._prompts = prompts

    def abilities(self, wanted: int) -> Abilities:
        """Find out everything; how chat messages are sent is settled in ``prompts`` itself.

        Args:
            wanted: How many likeliest tokens to ask for, if the server allows as many.

        Returns:
            The abilities.

        Raises:
            ServerUnusable: When it does not write at all.
            ConfigError: When its tokens are not those of the tokenizer.
        """
        self._settle_chat()
        sure = self._prepared(_SURE)
        top, reply = self._writes(sure, wanted)
        samplers = self._takes(sure, NEUTRAL) is not None
        token_ids = isinstance(self._prompts, TokenPrompts) and self._gives_ids(sure)
        scoring, why_not = self._scoring(positions(first_choice(reply)), top, token_ids)
        return Abilities(
            top=top,
            raw=top > 0 and self._is_raw(top),
            samplers=samplers,
            token_ids=token_ids,
            scoring=scoring,
            why_not=why_not,
            fingerprint=str(reply.get("system_fingerprint") or ""),
        )

    def _ask(self, prepared: Prepared, top: int, **settings: Any) -> Mapping[str, Any]:
        return self._client.post(prepared.path, writing_body(self._model, prepared, top, max_tokens=1, **settings))

    def _settle_chat(self) -> None:
        """Find out, where the server renders, whether it takes a system message and our template variables.

        Templates that refuse a system message, and servers that know no variables, answer with an error.
        """
        if not isinstance(self._prompts, TextPrompts) or self._prepared(_SURE).path != CHAT:
            return
        asked = {"native": (("system", "Be brief."), *_SURE.messages), "merged": _SURE.messages}
        for variables, (role, messages) in product((True, False), asked.items()):
            try:
                self._ask(Prepared(CHAT, messages=messages, variables=variables), 0, temperature=0)
            except RequestFailed as failure:
                reason = str(failure)
            else:
                self._prompts.system_role, self._prompts.variables = role, variables
                return
        raise ServerUnusable(f"{self._model} writes no answer to chat messages: {reason}")

    def _writes(self, prepared: Prepared, wanted: int) -> tuple[int, Mapping[str, Any]]:
        """Return how many likeliest tokens it gives, and its reply; older completions allow 5."""
        reasons = []
        for top in dict.fromkeys((wanted, min(wanted, 5), min(wanted, 1), 0)):
            try:
                reply = self._ask(prepared, top, temperature=1)
            except RequestFailed as failure:
                reasons.append(str(failure))
                continue
            given = positions(first_choice(reply))
            return (top if given and all(each.logprob is not None for each in given) else 0), reply
        raise ServerUnusable(f"{self._model} writes nothing: {reasons[-1]}")

    def _is_raw(self, top: int) -> bool:
        """Compare the first position at three temperatures; what is drawn from it plays no part."""
        seen = []
        for temperature in (1, 0, 0.5):
            try:
                reply = self._ask(self._prepared(_OPEN), top, temperature=temperature)
            except RequestFailed:
                return False
            first = positions(first_choice(reply))[:1]
            seen.append(sorted(first[0].top, reverse=True)[:top] if first else [])
        shared = min(map(len, seen))
        return shared > 0 and all(max(column) - min(column) < _SAME_NATS for column in zip(*seen, strict=False))

    def _takes(self, prepared: Prepared, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            return self._ask(prepared, 0, temperature=0, **settings)
        except RequestFailed:
            return None

    def _gives_ids(self, prepared: Prepared) -> bool:
        reply = self._takes(prepared, {"return_token_ids": True})
        ids = None if reply is None else first_choice(reply).get("token_ids")
        return isinstance(ids, list) and len(ids) > 0 and all(isinstance(each, int) for each in ids)

    def _scoring(self, at_one: list[Position], top: int, token_ids: bool) -> tuple[str, str]:
        """Try the ways; the first one whose numbers agree with the server's own writing is taken."""
        ways = TOKEN_WAYS if isinstance(self._prompts, TokenPrompts) else TEXT_WAYS
        prepared = self._prompts.prepare(Prompt(plain=_SURE.plain), 8)
        try:
            told = {"return_token_ids": True} if token_ids else {}
            written = _written(self._ask(prepared, top, temperature=0, **told), isinstance(self._prompts, TokenPrompts))
        except RequestFailed as failure:
            return "", f"no completions: {failure}"
        likely = self._prompts.continuation(written or _LIKELY, prepared)
        unlikely = self._prompts.continuation(_UNLIKELY, prepared)
        comparable = written and self._prepared(_SURE).path == COMPLETIONS and at_one and at_one[0].top
        peak = max(at_one[0].top) if comparable else None
        reasons = []
        for name, way in ways.items():
            try:
                read = [self._scored(way, prepared, each, top or 1) for each in (likely, unlikely, likely)]
            except (RequestFailed, ServerUnusable) as failure:
                reasons.append(f"{name}: {failure}")
                continue
            self._check_tokenizer(read, (likely, unlikely, likely))
            problem = next(_problems(read, peak), None)
            if problem is None:
                return name, ""
            reasons.append(f"{name}: {problem}")
        return "", "; ".join(reasons)

    def _prepared(self, prompt: Prompt) -> Prepared:
        """Prepare a prompt in the form that answers are written in; ours need no template for a probe."""
        plain = isinstance(self._prompts, TokenPrompts)
        return self._prompts.prepare(Prompt(plain=prompt.plain) if plain else prompt, 8)

    def _scored(self, way: ScoringWay, prepared: Prepared, given: Given, top: int) -> list[Position]:
        reply = self._client.post(COMPLETIONS, {"model": self._model, **way.body(prepared, given, top)})
        return way.read(reply, prepared, given)

    def _check_tokenizer(self, read: list[list[Position]], given: tuple[Given, ...]) -> None:
        for places, ids in zip(read, given, strict=True):
            if not isinstance(self._prompts, TokenPrompts) or isinstance(ids, str):
                return
            differing = surfaces_differ(self._prompts.tokenizer, ids, tuple(each.token for each in places))
            for token, (ours, theirs) in differing.items():
                raise ConfigError(
                    f"the tokenizer is not that of {self._model}: token {token} is {ours!r} in the tokenizer and "
                    f"{theirs!r} on the server; give the served model's own folder or Hub id as tokenizer"
                )


def _problems(read: list[list[Position]], peak: float | None) -> Iterator[str]:
    """Say what is wrong with the scores of a likely text, an unlikely one, and the likely one again."""
    likely, unlikely, again = (fsum(each.logprob or 0.0 for each in places) for places in read)
    if not likely > unlikely:
        yield f"a likely text scores {likely:.2f}, an unlikely one {unlikely:.2f}"
    if abs(likely - again) > _SAME_NATS:
        yield f"the same text scores {likely:.2f} and then {again:.2f} (prefix caching?)"
    if peak is not None and len(read[0]) == 1 and abs(likely - peak) > _SAME_NATS:
        yield f"the likeliest token scores {likely:.2f}, when written {peak:.2f}"


def _written(reply: Mapping[str, Any], ids: bool) -> str | tuple[int, ...]:
    """Return what was written: ids where they are wanted and told, else the text; empty when it cannot be sent back."""
    choice = first_choice(reply)
    told = choice.get("token_ids") or [each.token_id for each in positions(choice)]
    if ids and told and all(isinstance(each, int) for each in told):
        return tuple(told)
    text = str(choice.get("text") or "")
    return "" if "\ufffd" in text else text  # half a letter is another text when it is encoded
