"""Writing answers token by token, many at once, greedily or by sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from utilitune.generator.answer_text import AnswerText, stop_at
from utilitune.generator.causal_model import CausalModel, Prefix
from utilitune.generator.entropy import MAX_LOGITS, logit_stats
from utilitune.generator.key_values import select_rows
from utilitune.generator.sampling import Sampler, draw

# Finished answers are dropped from a batch once no more than this share of it goes on: dropping copies the cache.
MOST_ALIVE = 0.75


@dataclass(frozen=True)
class DecodeOrder:
    """One answer that is wanted.

    Attributes:
        max_new_tokens: Length limit, >= 1.
        stop: Stop strings.
        sampler: ``None`` for greedy.
    """

    max_new_tokens: int
    stop: tuple[str, ...] = ()
    sampler: Sampler | None = None

    @property
    def kind(self) -> tuple[float, float, int]:
        """Temperature (0 for greedy), nucleus mass and length limit: answers of one kind are written together.

        Of one limit, as a finished row may go on for a while, and must not go on beyond the context window.
        """
        chosen = (self.sampler.temperature, self.sampler.top_p) if self.sampler else (0.0, 1.0)
        return *chosen, self.max_new_tokens


@dataclass(frozen=True)
class Numbers:
    """Token ids with their log-probabilities and exact entropies; ``ended`` when an end token or stop string came."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    entropies: tuple[float, ...]
    ended_by: str = ""


@dataclass
class _Answer:
    """One answer being written."""

    order: DecodeOrder
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    ended_by: str = ""


class Decoder:
    """Writes answers.

    Args:
        model: The model.
        answer_text: Decoder of ids, for stop strings.
        end_ids: End-of-sequence ids.
    """

    def __init__(self, model: CausalModel, answer_text: AnswerText, end_ids: frozenset[int]) -> None:
        self._model = model
        self._text = answer_text
        self._ends = end_ids
        self._surfaces: dict[int, str] = {}

    def write(self, wanted: Sequence[tuple[tuple[int, ...], Prefix, DecodeOrder]]) -> list[Numbers]:
        """Write answers of one ``kind`` as a batch.

        Args:
            wanted: Ids of the prompt, what the model has read of it, and the order.

        Returns:
            The answers, the token that ended each included.
        """
        answers = [_Answer(order) for *_, order in wanted]
        limit = wanted[0][2].max_new_tokens
        chooser = _Chooser.of(wanted, self._model.device)
        rows = self._model.rows([prefix for _, prefix, _ in wanted], limit - 1)
        open_rows: list[_Answer | None] = list(answers)
        for step in range(limit):
            numbers = [self._next(rows.features[part], chooser, step, part) for part in self._slices(len(open_rows))]
            together = torch.cat(numbers, dim=1)
            tokens = together[0].long()
            # One transfer a step: float64 holds ids and float32 numbers alike.
            for place, (token, logprob, entropy) in enumerate(together.T.tolist()):
                if (answer := open_rows[place]) is not None:
                    answer.ids.append(int(token))
                    answer.logprobs.append(logprob)
                    answer.entropies.append(entropy)
                    answer.ended_by = self._ended_by(answer)
                    open_rows[place] = None if answer.ended_by else answer
            alive = [place for place, answer in enumerate(open_rows) if answer is not None]
            if not alive:
                break
            if len(alive) <= MOST_ALIVE * len(open_rows):
                keep = torch.tensor(alive, device=tokens.device)
                open_rows = [open_rows[place] for place in alive]
                tokens, rows.mask = tokens[keep], rows.mask[keep]
                chooser.select(keep)
                select_rows(rows.cache, keep)
            self._model.step(rows, tokens)
        return [Numbers(tuple(a.ids), tuple(a.logprobs), tuple(a.entropies), a.ended_by) for a in answers]

    def _slices(self, rows: int) -> list[slice]:
        """Cut rows so that their logits can be held, whatever the vocabulary."""
        size = max(1, MAX_LOGITS // self._model.vocabulary)
        return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]

    def _next(self, features: Tensor, chooser: _Chooser, step: int, part: slice) -> Tensor:
        """Return next tokens, log-probabilities and entropies, ``[3, rows]`` float64."""
        logits = self._model.logits(features)
        tokens = chooser.choose(logits, step, part)
        return torch.stack([tokens.double(), *(numbers.double() for numbers in logit_stats(logits, tokens))])

    def _ended_by(self, answer: _Answer) -> str:
        """Say what ended the answer, nothing while it goes on."""
        if answer.ids[-1] in self._ends:
            return "end"
        stop = answer.order.stop
        if stop and self._may_stop(answer.ids[-1], stop) and stop_at(self._text.decode(answer.ids), stop) >= 0:
            return "stop"
        return "length" if len(answer.ids) >= answer.order.max_new_tokens else ""

    def _may_stop(self, token: int, stop: Sequence[str]) -> bool:
        """Tell whether a token can complete a stop string, from its own text: decoding the whole answer is slow.

        It must hold the string's last letter. Part of a letter shows as U+FFFD, and a space may be lost when a token
        is decoded alone: then the answer is looked at.
        """
        if token not in self._surfaces:
            self._surfaces[token] = self._text.decode([token])
        surface = self._surfaces[token]
        return "\ufffd" in surface or any(end[-1] in surface or end[-1] == " " for end in stop)


@dataclass
class _Chooser:
    """Chooses tokens for rows of one kind.

    Attributes:
        uniforms: ``[rows, steps]`` float64, ``None`` for greedy.
        temperature: ``[rows]`` float64.
        top_p: ``[rows]`` float64.
    """

    uniforms: Tensor | None
    temperature: Tensor
    top_p: Tensor

    @classmethod
    def of(cls, wanted: Sequence[tuple[tuple[int, ...], Prefix, DecodeOrder]], device: torch.device) -> _Chooser:
        """Draw the uniforms of each row from its own stream."""
        temperature, top_p, limit = wanted[0][2].kind
        kind = torch.tensor([[temperature], [top_p]], dtype=torch.float64, device=device).expand(-1, len(wanted))
        drawn = [order.sampler.uniforms(ids, limit) for ids, _, order in wanted if order.sampler]
        return cls(torch.stack(drawn).to(device) if drawn else None, kind[0], kind[1])

    def choose(self, logits: Tensor, step: int, part: slice) -> Tensor:
        """Choose the next token of the rows in ``part``, ``[rows]``."""
        if self.uniforms is None:
            return logits.argmax(dim=-1)
        return draw(logits, self.uniforms[part, step], self.temperature[part], self.top_p[part])

    def select(self, rows: Tensor) -> None:
        """Keep the given rows."""
        self.uniforms = None if self.uniforms is None else self.uniforms[rows]
        self.temperature, self.top_p = self.temperature[rows], self.top_p[rows]
