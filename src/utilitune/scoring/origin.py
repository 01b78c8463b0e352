"""Where a response comes from: for people, for ``labels stats``, ``export`` and ``gc``; never part of its key."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from utilitune.generator.protocol import GeneratorIdentity

FORMAT_1 = "format 1"
"""The kind of rows that a store of format 1 kept without saying what they were."""


@dataclass(frozen=True, eq=False)
class Source:
    """What many responses have in common; make it once and share it.

    Attributes:
        generator: SHA-256 hex digest of the generator's identity; empty when unknown.
        identity: The identity as JSON; empty when unknown.
        kind: ``greedy``, ``text`` or ``ids`` (scored), ``draw``, ``contrast``; empty when unknown.
        prompt: Name of the prompt, where known.
        prompt_hash: Hash of the prompt file, where known.
    """

    generator: str = ""
    identity: str = ""
    kind: str = ""
    prompt: str = ""
    prompt_hash: str = ""

    @classmethod
    def of(cls, identity: GeneratorIdentity, kind: str, prompt: str = "", prompt_hash: str = "") -> Source:
        """Return the source of a generator's responses of one kind under one prompt."""
        return cls(identity.key(), json.dumps(identity.as_dict(), sort_keys=True), kind, prompt, prompt_hash)


@dataclass(frozen=True)
class Subject:
    """What a request is about.

    Attributes:
        query_id: The query.
        passage_ids: The passages in the prompt, in order; empty for the bare question.
        prompt: Name of the prompt, where known.
        prompt_hash: Hash of the prompt file, where known.
    """

    query_id: str = ""
    passage_ids: tuple[str, ...] = ()
    prompt: str = ""
    prompt_hash: str = ""

    @cached_property
    def passages(self) -> str:
        """The passage ids as JSON."""
        return json.dumps(self.passage_ids, ensure_ascii=False) if self.passage_ids else ""


@dataclass(frozen=True)
class Origin:
    """Where one response comes from.

    Attributes:
        source: What it shares with many.
        subject: What it is about.
    """

    source: Source = Source()
    subject: Subject = Subject()


UNKNOWN = Origin()
