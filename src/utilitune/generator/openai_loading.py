"""From a mapping to a generator on a server: address, key, tokenizer, then the probe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from utilitune.errors import ConfigError
from utilitune.generator.openai_generator import OpenAIGenerator, tokenizer_hash
from utilitune.generator.packaged import resolve_model
from utilitune.generator.protocol import GeneratorIdentity
from utilitune.generator.rendering import FIXED, Renderer
from utilitune.generator.server_address import ServerAddress
from utilitune.generator.server_client import Patience, ServerClient
from utilitune.generator.server_probe import Abilities, Probe, ServedModel, served_model
from utilitune.generator.server_prompt import Prompts, TextPrompts, TokenPrompts
from utilitune.progress import say

NUMERICS = "1"
"""Part of every key of the store: raise it when a change here or in the readers changes a number."""


@dataclass(frozen=True)
class ServerSpec:
    """Everything that names a generator on a server.

    Attributes:
        model: Its name there.
        base_url: ``http(s)://HOST:PORT/v1``.
        backend: ``"openai"``.
        tokenizer: The served model's tokenizer: folder, packaged model or Hub id. With it prompts are rendered, cut
            and sent as token ids; without it a server renders chat messages itself and scores plain prompts alone.
        template: With a tokenizer ``"auto"``, ``"require"``, ``"plain"`` or a file; without one ``"auto"`` (the
            server's) or ``"plain"``.
        api_key_env: Environment variable with the API key; ``OPENAI_API_KEY`` is used when set.
        top_logprobs: Likeliest tokens to ask for at each position, for entropy bounds.
        max_length: Context window in tokens; what the server or the tokenizer says when 0.
        vocabulary: Number of the model's token ids, for upper entropy bounds; when 0 the server's, else the
            tokenizer's (set it where the model's vocabulary is padded).
        overflow: ``"truncate"`` or ``"error"``.
        concurrency: Requests at a time.
        timeout: Seconds that one request may take.
        attempts: Times that one request is sent.
        backoff: Seconds before the second attempt, doubled each time.
        equal_failures: Different requests in a row that may fail alike before all stops.
    """

    model: str
    base_url: str
    backend: str = "openai"
    tokenizer: str | None = None
    template: str | None = None
    api_key_env: str | None = None
    top_logprobs: int = 20
    max_length: int = 0
    vocabulary: int = 0
    overflow: str = "truncate"
    concurrency: int = 8
    timeout: float = 120.0
    attempts: int = 4
    backoff: float = 0.5
    equal_failures: int = 10


def load_openai(given: Mapping[str, Any]) -> OpenAIGenerator:
    """Reach a server, ask it what it can do, and say so.

    Args:
        given: The keys of ``ServerSpec``.

    Returns:
        The generator.

    Raises:
        ConfigError: For unknown or missing keys, values out of range, or a tokenizer that is not the server's.
        ServerUnusable: When the server does not answer, refuses the key, or writes nothing.
    """
    spec = _checked(given)
    address = ServerAddress(spec.base_url, spec.api_key_env)
    patience = Patience(spec.concurrency, spec.timeout, spec.attempts, spec.backoff, spec.equal_failures)
    client = ServerClient(address, patience)
    served = served_model(client, spec.model)
    tokenizer = None if spec.tokenizer is None else _tokenizer(spec.tokenizer)
    vocabulary = spec.vocabulary or served.vocabulary or (0 if tokenizer is None else len(tokenizer))
    prompts = _prompts(spec, served, tokenizer)
    abilities = Probe(client, spec.model, prompts).abilities(spec.top_logprobs)
    client.forget()
    say(_said(spec, address, abilities))
    identity = GeneratorIdentity(
        model=spec.model,
        revision=abilities.fingerprint,
        backend="openai",
        dtype="server",
        template=prompts.template_hash,
        system_role=prompts.system_role,
        max_length=prompts.limit,
        options=_options(spec, address, abilities, served, prompts, vocabulary),
    )
    return OpenAIGenerator(client, prompts, abilities, identity, vocabulary)


def _checked(given: Mapping[str, Any]) -> ServerSpec:
    known = [field.name for field in fields(ServerSpec)]
    problems = [f"unknown key {key!r}" for key in sorted(set(given) - set(known))]
    problems += [f"no key {key!r}" for key in ("model", "base_url") if not given.get(key)]
    low = {"top_logprobs": 1, "max_length": 0, "vocabulary": 0, "concurrency": 1, "attempts": 1, "equal_failures": 1}
    problems += [
        f"{key} is {given[key]!r}, expected a whole number of at least {least}"
        for key, least in low.items()
        if key in given and not (type(given[key]) is int and given[key] >= least)
    ]
    problems += [
        f"{key} is {given[key]!r}, expected a number above 0"
        for key in ("timeout", "backoff")
        if key in given and not (isinstance(given[key], int | float) and given[key] > 0)
    ]
    if problems:
        raise ConfigError(f"generator on a server: {'; '.join(problems)}; known: {known}")
    paths = {key: str(given[key]) for key in ("tokenizer", "template") if given.get(key)}
    return ServerSpec(**{**given, **paths})


def _tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    source = str(resolve_model(name))
    folder = Path(source).expanduser()
    try:
        return AutoTokenizer.from_pretrained(folder if folder.is_dir() else source, local_files_only=folder.is_dir())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot load the tokenizer {name!r}: {str(error).splitlines()[0]}; give the served model's folder or id"
        ) from error


def _prompts(spec: ServerSpec, served: ServedModel, tokenizer: Any) -> Prompts:
    """Choose the form of prompts: token ids with a tokenizer, else text and messages."""
    if tokenizer is None:
        if spec.template not in (None, "auto", "plain"):
            raise ConfigError(
                f"template={spec.template!r} needs the served model's tokenizer; add tokenizer=FOLDER, or use 'plain'"
            )
        return TextPrompts(plain=spec.template == "plain")
    stated = tokenizer.model_max_length if tokenizer.model_max_length < 1_000_000_000 else 0
    limit = spec.max_length or served.limit or stated
    if not limit:
        raise ConfigError(f"neither the server nor the tokenizer states the window of {spec.model}; give max_length")
    renderer = Renderer(tokenizer, spec.template, spec.model)
    # A tokenizer may know fewer ids than the model; the server refuses those that it does not know.
    return TokenPrompts(tokenizer, renderer, int(limit), spec.vocabulary or served.vocabulary or 1 << 31, spec.overflow)


def _options(
    spec: ServerSpec,
    address: ServerAddress,
    abilities: Abilities,
    served: ServedModel,
    prompts: Prompts,
    vocabulary: int,
) -> dict[str, str]:
    named = {
        "base_url": address.shown,
        "served_model": served.name,
        "scoring": abilities.scoring or "none",
        "logprobs": f"temperature 1, no penalties; top {abilities.top}" if abilities.raw else "none of written answers",
        "samplers": "neutral" if abilities.samplers else "the server's defaults",
        "vocabulary": str(vocabulary),
        "numerics": NUMERICS,
    }
    if isinstance(prompts, TextPrompts) and prompts.variables:
        named["template_variables"] = json.dumps(FIXED, sort_keys=True)
    if isinstance(prompts, TokenPrompts):
        named |= {"tokenizer": f"{spec.tokenizer}@{tokenizer_hash(prompts.tokenizer)}", "overflow": spec.overflow}
        named["template_variables"] = json.dumps(FIXED, sort_keys=True)
    return named


def _said(spec: ServerSpec, address: ServerAddress, abilities: Abilities) -> str:
    what = "given texts" if spec.tokenizer or spec.template == "plain" else "texts after plain prompts"
    scoring = f"scores {what} ({abilities.scoring})" if abilities.scoring else "cannot score given texts"
    written = f"answers with the top {abilities.top} log-probabilities" if abilities.raw else "answers without numbers"
    if abilities.top and not abilities.raw:
        written += " (its log-probabilities change with the temperature)"
    return f"{spec.model} at {address.shown}: {scoring}; {written}; entropies are bounds"
