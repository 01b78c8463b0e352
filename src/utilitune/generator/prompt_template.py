"""Prompts as data: YAML files with declared placeholders, rendered for chat models and for plain ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Prompt
from utilitune.records.passage import Passage
from utilitune.records.query import Turn

PROMPT_FOLDER = Path(__file__).parent / "prompts"
PLACEHOLDERS = frozenset({"question", "passages", "history", "answers", "candidates", "criteria"})
ROLES = frozenset({"system", "user", "assistant"})
KEYS = frozenset({"name", "version", "placeholders", "messages", "plain", "stop", "max_new_tokens"})


def _first_words(text: str, count: int) -> str:
    words = text.split()
    return " ".join(words[:count]) + (" …" if len(words) > count else "")


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.filters["first_words"] = _first_words
    return environment


@dataclass(frozen=True)
class PromptTemplate:
    """One prompt file, checked and ready to render.

    Attributes:
        name: Name in the file.
        version: Version in the file, for people; the hash is what tells two prompts apart.
        hash: SHA-256 hex digest of the file's text (line ends and trailing blanks normalised).
        required: Placeholders that must be filled with something non-empty.
        optional: Placeholders that may be left empty.
        stop: Strings that end an answer.
        max_new_tokens: Length limit of an answer.
    """

    name: str
    version: int
    hash: str
    required: frozenset[str]
    optional: frozenset[str]
    stop: tuple[str, ...]
    max_new_tokens: int
    _messages: tuple[tuple[str, Template], ...] = field(repr=False, compare=False)
    _plain: Template = field(repr=False, compare=False)

    def render(
        self,
        *,
        question: str,
        passages: Sequence[Passage] = (),
        history: Sequence[Turn] = (),
        answers: Sequence[str] = (),
        candidates: Sequence[str] = (),
        criteria: Mapping[str, str] | None = None,
    ) -> Prompt:
        """Fill the placeholders.

        Args:
            question: The question.
            passages: Passages in prompt order; their texts are what may be shortened (``Prompt.trim``).
            history: Earlier turns, oldest first.
            answers: Gold answers, for prompts that judge.
            candidates: Answers to be judged, in prompt order; they may be shortened like passages.
            criteria: What to judge them by, name -> description.

        Returns:
            The prompt, with its chat form and its plain form.

        Raises:
            ConfigError: When something is given that the file does not declare, or a required placeholder is
                empty.
        """
        given: dict[str, Any] = {"question": question, "passages": tuple(passages)}
        given |= {"history": tuple(history), "answers": tuple(answers)}
        given |= {"candidates": tuple(candidates), "criteria": dict(criteria or {})}
        declared = self.required | self.optional
        unknown = sorted(name for name in PLACEHOLDERS - declared if given[name])
        missing = sorted(name for name in self.required if not given[name])
        if unknown or missing:
            found = [f"{name} is given but not declared" for name in unknown]
            found += [f"{name} is required but empty" for name in missing]
            raise ConfigError(
                f"prompt {self.name!r}: {'; '.join(found)}; it declares required "
                f"{sorted(self.required)}, optional {sorted(self.optional)}"
            )
        values = {name: given[name] for name in declared}
        try:
            messages = tuple((role, template.render(values)) for role, template in self._messages)
            plain = self._plain.render(values)
        except TemplateError as error:
            raise ConfigError(f"prompt {self.name!r} cannot be rendered: {error}") from error
        whole = "\n".join([plain, *(content for _, content in messages)])
        cuttable = [*(passage.text for passage in passages), *candidates]
        trim = tuple(dict.fromkeys(text for text in cuttable if text and text in whole))
        return Prompt(messages=messages, plain=plain, trim=trim)


def _problems(source: Mapping[str, Any]) -> list[str]:
    """List everything that is wrong with the shape of a prompt file."""
    problems = [f"unknown key {key!r}" for key in sorted(set(source) - KEYS)]
    problems += [f"missing key {key!r}" for key in sorted(KEYS - set(source))]
    if problems:
        return problems
    placeholders = source["placeholders"]
    if not isinstance(placeholders, Mapping) or set(placeholders) != {"required", "optional"}:
        problems.append("placeholders must have the keys 'required' and 'optional'")
    else:
        named = [*(placeholders["required"] or ()), *(placeholders["optional"] or ())]
        problems += [
            f"unknown placeholder {name!r}, known: {sorted(PLACEHOLDERS)}" for name in named if name not in PLACEHOLDERS
        ]
    messages = source["messages"]
    if not isinstance(messages, list) or not messages:
        return [*problems, "messages must be a list of role and content"]
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
            problems.append(f"message {number} must have exactly the keys 'role' and 'content'")
        elif message["role"] not in ROLES:
            problems.append(f"message {number} has role {message['role']!r}, known: {sorted(ROLES)}")
    if not isinstance(source["plain"], str) or not source["plain"].strip():
        problems.append("plain must be text")
    if not isinstance(source["stop"], list) or not all(isinstance(s, str) and s for s in source["stop"]):
        problems.append("stop must be a list of non-empty strings")
    if not isinstance(source["max_new_tokens"], int) or source["max_new_tokens"] < 1:
        problems.append("max_new_tokens must be a whole number of at least 1")
    return problems


def parse_prompt(text: str, origin: str) -> PromptTemplate:
    """Read a prompt from YAML text.

    Args:
        text: Content of the file.
        origin: What to call it in errors.

    Returns:
        The checked template.

    Raises:
        ConfigError: With all problems at once.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    text = "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"
    try:
        source = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{origin} is not YAML: {error}") from error
    if not isinstance(source, Mapping):
        raise ConfigError(f"{origin} must be a mapping with the keys {sorted(KEYS)}")
    problems = _problems(source)
    if problems:
        raise ConfigError(f"{origin}: " + "; ".join(problems))
    required = frozenset(source["placeholders"]["required"] or ())
    optional = frozenset(source["placeholders"]["optional"] or ())
    environment = _environment()
    sources = [*(str(message["content"]) for message in source["messages"]), str(source["plain"])]
    try:
        used = {name for part in sources for name in meta.find_undeclared_variables(environment.parse(part))}
        compiled = [environment.from_string(part) for part in sources]
    except TemplateError as error:
        raise ConfigError(f"{origin}: template error: {error}") from error
    declared = required | optional
    problems = [f"placeholder {name!r} is used but not declared" for name in sorted(used - declared)]
    problems += [f"placeholder {name!r} is declared but not used" for name in sorted(declared - used)]
    if problems:
        raise ConfigError(f"{origin}: " + "; ".join(problems))
    roles = [str(message["role"]) for message in source["messages"]]
    return PromptTemplate(
        name=str(source["name"]),
        version=int(source["version"]),
        hash=hashlib.sha256(text.encode()).hexdigest(),
        required=required,
        optional=optional,
        stop=tuple(source["stop"]),
        max_new_tokens=source["max_new_tokens"],
        _messages=tuple(zip(roles, compiled[:-1], strict=True)),
        _plain=compiled[-1],
    )


@cache
def _packaged(name: str) -> PromptTemplate:
    path = PROMPT_FOLDER / f"{name}.yaml"
    return parse_prompt(path.read_text(encoding="utf-8"), f"packaged prompt {name!r}")


def packaged_prompts() -> list[str]:
    """Return the names of the prompts that come with the package."""
    return sorted(path.stem for path in PROMPT_FOLDER.glob("*.yaml"))


def load_prompt(name_or_path: str | Path) -> PromptTemplate:
    """Load a prompt by packaged name or from a YAML file.

    Args:
        name_or_path: A name of ``packaged_prompts()``, such as ``"answer"``, or a path ending in ``.yaml``.

    Returns:
        The checked template.

    Raises:
        ConfigError: For an unknown name, a missing file, or a file that is not a prompt.
    """
    if str(name_or_path) in packaged_prompts():
        return _packaged(str(name_or_path))
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        raise ConfigError(
            f"unknown prompt {str(name_or_path)!r}; known: {packaged_prompts()}, or a path to a .yaml file"
        )
    if not path.is_file():
        raise ConfigError(f"prompt file {path} does not exist")
    return parse_prompt(path.read_text(encoding="utf-8"), f"prompt file {path}")
