"""The two contexts of an answer: with the passages, and without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from utilitune.errors import ConfigError
from utilitune.generator.protocol import Prompt
from utilitune.records.passage import Passage
from utilitune.records.query import Query, Turn
from utilitune.scoring.protocol import Greedy


class Template(Protocol):
    """A prompt as data, as ``utilitune.generator.load_prompt`` gives it."""

    @property
    def name(self) -> str:
        """Name of the prompt."""
        ...

    @property
    def hash(self) -> str:
        """Hash of everything in the prompt file."""
        ...

    @property
    def stop(self) -> tuple[str, ...]:
        """Strings that end an answer."""
        ...

    @property
    def max_new_tokens(self) -> int:
        """Length limit of an answer in tokens."""
        ...

    def render(
        self,
        *,
        question: str,
        passages: Sequence[Passage] = (),
        history: Sequence[Turn] = (),
        answers: Sequence[str] = (),
    ) -> Prompt:
        """Fill the prompt."""
        ...


def template(prompt: str | Template) -> Template:
    """Return ``prompt`` itself, or the packaged prompt or prompt file of that name."""
    if not isinstance(prompt, str):
        return prompt
    from utilitune.generator import load_prompt

    return load_prompt(prompt)


def worded(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return the passages that say something; one of white space alone is as good as none."""
    return tuple(passage for passage in passages if passage.full_text.strip())


def rendered(filled: Template, query: Query, passages: Sequence[Passage], answers: Sequence[str] = ()) -> Prompt:
    """Fill a prompt for a query and the passages that say something."""
    return filled.render(
        question=query.text, passages=worded(passages), history=tuple(query.history), answers=tuple(answers)
    )


class Contexts:
    """Asks for greedy answers with and without passages.

    The bare question does not depend on the passages, so all passages of a query share its one answer.
    """

    def __init__(self, prompt: str | Template = "answer", max_new_tokens: int | None = None) -> None:
        """Load the prompt; ``max_new_tokens`` overrides the prompt's own limit (tokens, >= 1)."""
        self.template = template(prompt)
        self.limit = checked_limit(self.template.max_new_tokens if max_new_tokens is None else max_new_tokens)
        self.default_limit = self.limit == self.template.max_new_tokens

    def grounded(self, query: Query, passages: Sequence[Passage]) -> Greedy:
        """Ask for the answer with ``passages`` in the prompt."""
        return Greedy(rendered(self.template, query, passages), self.limit, tuple(self.template.stop))

    def bare(self, query: Query) -> Greedy:
        """Ask for the answer to the question alone."""
        return self.grounded(query, ())

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What of this can change a number."""
        return {
            "prompt": self.template.name,
            "prompt_hash": self.template.hash,
            "max_new_tokens": self.limit,
            "stop": list(self.template.stop),
        }

    @property
    def suffix(self) -> str:
        """The part of a utility's name that tells of settings other than the default ones."""
        return spelled(
            prompt=None if self.template.name == "answer" else self.template.name,
            max_new_tokens=None if self.default_limit else self.limit,
        )


SPELLINGS = ("as given", "after a space")
"""What ``spellings`` returns, for the parameters of utilities that ask for both."""


def spellings(text: str) -> tuple[str, str]:
    """Return ``text`` without and with a leading space; which of them a generator reads after its prompt is its own."""
    return text, f" {text}"


def checked_limit(limit: object) -> int:
    """Return ``limit`` if it is a whole number of tokens of at least 1."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ConfigError(f"max_new_tokens is {limit!r}; expected a whole number of tokens, at least 1")
    return limit


def spelled(**settings: object) -> str:
    """Return ``,key=value`` for every setting that is not ``None``."""
    return "".join(f",{key}={value}" for key, value in settings.items() if value is not None)
