"""The order of a chunk's requests, and which of them share a prefill."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from utilitune.generator.protocol import Prompt, Task
from utilitune.scoring.protocol import Contrast, Draw, Greedy, Request, Rescore


@dataclass(frozen=True)
class Part:
    """One response to be had from the generator.

    A greedy answer, or a scored continuation where there is one; else what ``draw`` or ``contrast`` asks for.
    """

    key: bytes
    prompt: Prompt
    max_new_tokens: int = 0
    stop: tuple[str, ...] = ()
    continuation: str | tuple[int, ...] | None = None
    draw: Draw | None = None
    contrast: Contrast | None = None

    @property
    def kind(self) -> str:
        """What is asked: ``draw``, ``contrast``, ``greedy``, or a scored ``text`` or its ``ids``."""
        if self.draw is not None:
            return "draw"
        if self.contrast is not None:
            return "contrast"
        if self.continuation is None:
            return "greedy"
        return "text" if isinstance(self.continuation, str) else "ids"


@dataclass
class Fused:
    """Parts that share one prompt and hence one prefill; at most one greedy answer."""

    prompt: Prompt
    greedy: Part | None = None
    scored: list[Part] = field(default_factory=list)

    def task(self) -> Task:
        """Return what the generator is asked."""
        texts = tuple(part.continuation for part in self.scored if part.continuation is not None)
        if self.greedy is None:
            return Task(self.prompt, continuations=texts)
        return Task(self.prompt, self.greedy.max_new_tokens, self.greedy.stop, texts)


def stages(requests: Iterable[Request]) -> tuple[list[Request], list[Request], list[Request]]:
    """Put requests in an order in which every prompt is prefilled as seldom as can be.

    Two answers that are each rescored under the other's prompt cannot both wait for the other. The one with the
    shorter prompt (the bare question) goes first, so that its tokens are scored from the very prefill in which the
    longer prompt (with the passages) gives its own answer.

    Args:
        requests: Requests, repeats allowed.

    Returns:
        Answers that go first; everything that can then be asked; rescorings of answers of the second stage.
    """
    unique: dict[Request, None] = {}
    for request in requests:
        if isinstance(request, Rescore):
            unique[request.of] = None
        unique[request] = None
    answering = {request.prompt for request in unique if isinstance(request, Greedy)}
    early: dict[Request, None] = {}
    for request in unique:
        if isinstance(request, Rescore) and request.prompt in answering:
            own, other = _length(request.of.prompt), _length(request.prompt)
            if own < other:
                early[request.of] = None
    last: list[Request] = [request for request in unique if isinstance(request, Rescore) and request.of not in early]
    waiting = set(last)
    return list(early), [each for each in unique if each not in early and each not in waiting], last


def _length(prompt: Prompt) -> int:
    return sum(len(content) for _, content in prompt.messages) or len(prompt.plain)


def fuse(parts: Iterable[Part]) -> list[Fused]:
    """Group parts by prompt in order of first appearance; a second greedy answer needs a task of its own."""
    first: dict[Prompt, Fused] = {}
    fused: list[Fused] = []
    for part in parts:
        group = first.get(part.prompt)
        if group is None or (part.continuation is None and group.greedy is not None):
            group = Fused(part.prompt)
            first.setdefault(part.prompt, group)
            fused.append(group)
        if part.continuation is None:
            group.greedy = part
        else:
            group.scored.append(part)
    return fused
