"""One prefill of each distinct prompt, then everything that is wanted of it: decoded answers and scored texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from utilitune.generator.answer_text import AnswerText, stop_at
from utilitune.generator.causal_model import CausalModel, fork, select_rows
from utilitune.generator.contrast import ContrastWork, contrast_stats
from utilitune.generator.entropy import feature_stats, logit_stats
from utilitune.generator.sampling import Sampler, draw

# Logits of all positions of a scored batch, for models whose head cannot be applied position by position (1 GiB).
MAX_HELD_LOGITS = 1 << 28
# A shared opening is run once when that saves more than the extra call costs.
LEAST_SHARED = 16
LEAST_ROWS = 3
# Finished answers are dropped from a batch once no more than this share of it goes on.
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


@dataclass(frozen=True)
class Numbers:
    """Token ids with their log-probabilities and exact entropies; ``ended`` when an end token or stop string came."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    entropies: tuple[float, ...]
    ended_by: str = ""


@dataclass
class Work:
    """A distinct prompt with all that is wanted of it; results are filled in under the same keys.

    Attributes:
        ids: Prompt ids.
        decode: Answers wanted.
        score: Continuations wanted, as ids.
        decoded: Answers, by order.
        scored: Continuations, by ids.
    """

    ids: tuple[int, ...]
    decode: dict[DecodeOrder, None] = field(default_factory=dict)
    score: dict[tuple[int, ...], None] = field(default_factory=dict)
    decoded: dict[DecodeOrder, Numbers] = field(default_factory=dict)
    scored: dict[tuple[int, ...], Numbers] = field(default_factory=dict)


@dataclass
class _Row:
    """One answer being written."""

    work: Work
    order: DecodeOrder
    uniforms: Tensor | None
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class _Prefilled:
    """Prompts after their one forward pass: a row each."""

    features: Tensor
    mask: Tensor
    cache: Any

    def rows(self, wanted: Tensor) -> Any:
        """Return a cache of the wanted rows that may grow; copied only when they are not all rows in order."""
        if wanted.tolist() == list(range(len(self.mask))):
            return fork(self.cache)
        return select_rows(self.cache, wanted)


class Engine:
    """Executes work in token-budget batches.

    Args:
        model: The model.
        answer_text: Decoder of ids, for stop strings.
        end_ids: End-of-sequence ids.
        batch_tokens: Tokens in a batch, padding included, for prompts and for expanded caches.
    """

    def __init__(self, model: CausalModel, answer_text: AnswerText, end_ids: frozenset[int], batch_tokens: int) -> None:
        self._model = model
        self._text = answer_text
        self._ends = end_ids
        self._budget = batch_tokens
        self.out_of_memory = 0

    def run(self, work: Sequence[Work]) -> None:
        """Fill in the results of all work, longest prompts first (what breaks for memory breaks at once).

        Args:
            work: Distinct prompts.
        """
        with torch.inference_mode():
            for group in by_opening(work):
                ordered = sorted(group, key=lambda item: (-len(item.ids), item.ids))
                for batch in split_by_budget(ordered, lambda item: len(item.ids), self._budget):
                    self._run_batch(batch, self._run_once)

    def contrast(self, work: Sequence[ContrastWork]) -> None:
        """Fill in the results of all work; both prompts of an item are in one batch, each distinct one once.

        Args:
            work: Texts to be scored under contrasts.
        """
        ordered = sorted(work, key=lambda item: (-item.width, item.other, item.ids, item.text))
        with torch.inference_mode():
            for batch in split_by_budget(
                ordered, lambda item: 2 * self._cost(item.width, len(item.text)), self._budget
            ):
                self._run_batch(batch, self._contrast_once)

    def _run_batch(self, batch: Sequence[Any], once: Callable[[Sequence[Any]], None]) -> None:
        """Run a batch; out of memory, run its halves."""
        try:
            once(batch)
        except RuntimeError as error:
            if not _is_out_of_memory(error) or len(batch) == 1:
                raise
        else:
            return
        self.out_of_memory += 1
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        middle = len(batch) // 2
        self._run_batch(batch[:middle], once)
        self._run_batch(batch[middle:], once)

    def _run_once(self, batch: Sequence[Work]) -> None:
        prefilled = self._prefill([item.ids for item in batch])
        width = prefilled.mask.shape[1]
        wanted = [(row, ids) for row, item in enumerate(batch) for ids in item.score]
        wanted.sort(key=lambda pair: (len(pair[1]), pair[0]))
        for part in split_by_budget(wanted, lambda pair: self._cost(width, len(pair[1])), self._budget):
            for (row, ids), numbers in zip(part, self._score(prefilled, part), strict=True):
                batch[row].scored[ids] = numbers
        orders = [(row, order) for row, item in enumerate(batch) for order in item.decode]
        for chosen in split_by_budget(orders, lambda pair: width + pair[1].max_new_tokens, self._budget):
            self._decode(prefilled, [(row, _start(batch[row], order)) for row, order in chosen])

    def _contrast_once(self, batch: Sequence[ContrastWork]) -> None:
        prompts = list(dict.fromkeys(prompt for item in batch for prompt in (item.ids, item.other)))
        row = {prompt: number for number, prompt in enumerate(prompts)}
        prefilled = self._prefill(prompts)
        ours, targets = self._continued(prefilled, [(row[item.ids], item.text) for item in batch])
        theirs, _ = self._continued(prefilled, [(row[item.other], item.text) for item in batch])
        alpha = torch.tensor([item.alpha for item in batch for _ in item.text], device=self._model.device)
        found = contrast_stats(self._model.logits, (ours, theirs), targets, alpha, self._model.vocabulary)
        logprobs, entropies = (numbers.tolist() for numbers in found)
        start = 0
        for item in batch:
            end = start + len(item.text)
            item.logprobs, item.entropies = tuple(logprobs[start:end]), tuple(entropies[start:end])
            start = end

    def _cost(self, width: int, length: int) -> int:
        """Return what a continuation counts against the budget; more when a model hands out logits, not states."""
        if self._model.gives_states:
            return width + length
        return max(width + length, self._budget * length * self._model.vocabulary // MAX_HELD_LOGITS)

    def _prefill(self, prompts: Sequence[tuple[int, ...]]) -> _Prefilled:
        width = max(len(ids) for ids in prompts)
        ids = torch.tensor([[0] * (width - len(p)) + list(p) for p in prompts], device=self._model.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=self._model.device)
        features, cache = self._model.prefill(ids, mask, shared_opening(prompts))
        return _Prefilled(features, mask, cache)

    def _score(self, prefilled: _Prefilled, wanted: Sequence[tuple[int, tuple[int, ...]]]) -> list[Numbers]:
        """Score continuations."""
        features, targets = self._continued(prefilled, wanted)
        logprobs, entropies = feature_stats(self._model.logits, features, targets, self._model.vocabulary)
        values: list[Numbers] = []
        flat_logprobs, flat_entropies, start = logprobs.tolist(), entropies.tolist(), 0
        for _, ids in wanted:
            end = start + len(ids)
            values.append(Numbers(ids, tuple(flat_logprobs[start:end]), tuple(flat_entropies[start:end])))
            start = end
        return values

    def _continued(self, prefilled: _Prefilled, wanted: Sequence[tuple[int, tuple[int, ...]]]) -> tuple[Tensor, Tensor]:
        """Run continuations, right-padded behind copies of their prompts' caches.

        Args:
            prefilled: The prompts.
            wanted: Row of the prompt, and ids of the continuation.

        Returns:
            Features before each token, ``[tokens, width]``, and the tokens, ``[tokens]``, one continuation after the
            other.
        """
        device = self._model.device
        rows = torch.tensor([row for row, _ in wanted], device=device)
        lengths = [len(ids) for _, ids in wanted]
        longest = max(lengths)
        first = prefilled.features[rows]
        padded = torch.tensor([list(ids) + [0] * (longest - len(ids)) for _, ids in wanted], device=device)
        real = torch.arange(longest, device=device) < torch.tensor(lengths, device=device).unsqueeze(1)
        features = first.unsqueeze(1)
        if longest > 1:
            # The last token is never run: nothing after it is wanted.
            mask = torch.cat([prefilled.mask[rows], real[:, 1:].to(prefilled.mask.dtype)], dim=1)
            cache = prefilled.rows(rows)
            later = self._model.step(padded[:, :-1], mask, cache, keep=longest - 1)
            features = torch.cat([features, later], dim=1)
        return features[real], padded[real]

    def _decode(self, prefilled: _Prefilled, started: list[tuple[int, _Row]]) -> None:
        """Write answers as a batch; finished rows leave it, several at a time since leaving copies the cache."""
        device = self._model.device
        index = torch.tensor([row for row, _ in started], device=device)
        rows: list[_Row | None] = [row for _, row in started]
        features, mask = prefilled.features[index], prefilled.mask[index]
        cache = prefilled.rows(index)
        while True:
            logits = self._model.logits(features)
            tokens = _choose(logits, rows)
            logprobs, entropies = logit_stats(logits, tokens)
            alive = []
            numbers = zip(rows, tokens.tolist(), logprobs.tolist(), entropies.tolist(), strict=True)
            for place, (row, token, logprob, entropy) in enumerate(numbers):
                if row is None:
                    continue
                row.ids.append(token)
                row.logprobs.append(logprob)
                row.entropies.append(entropy)
                ended_by = self._ended_by(row)
                if ended_by is None:
                    alive.append(place)
                else:
                    row.work.decoded[row.order] = Numbers(
                        tuple(row.ids), tuple(row.logprobs), tuple(row.entropies), ended_by
                    )
                    rows[place] = None
            if not alive:
                return
            if len(alive) <= MOST_ALIVE * len(rows):
                keep = torch.tensor(alive, device=device)
                rows = [rows[place] for place in alive]
                mask, tokens, cache = mask[keep], tokens[keep], select_rows(cache, keep)
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
            features = self._model.step(tokens.unsqueeze(1), mask, cache, keep=1)[:, 0]

    def _ended_by(self, row: _Row) -> str | None:
        """Say what ended the answer, ``None`` while it goes on."""
        if row.ids[-1] in self._ends:
            return "end"
        if row.order.stop and stop_at(self._text.decode(row.ids), row.order.stop) >= 0:
            return "stop"
        return "length" if len(row.ids) >= row.order.max_new_tokens else None


def by_opening(work: Sequence[Work]) -> list[list[Work]]:
    """Group prompts that begin alike (the same instruction and examples), so that a batch can share the beginning.

    Args:
        work: Prompts, any order.

    Returns:
        The groups, and last all prompts with too few companions.
    """
    groups: dict[tuple[int, ...], list[Work]] = {}
    for item in work:
        groups.setdefault(item.ids[:LEAST_SHARED], []).append(item)
    alike = [group for opening, group in sorted(groups.items()) if len(group) >= LEAST_ROWS]
    rest = [item for group in groups.values() if len(group) < LEAST_ROWS for item in group]
    return [*alike, rest] if rest else alike


def shared_opening(prompts: Sequence[tuple[int, ...]]) -> int:
    """Return how many first tokens of all prompts to run once; 0 where that saves nothing.

    Args:
        prompts: Prompt ids.

    Returns:
        Less than the shortest prompt.
    """
    first, last = min(prompts), max(prompts)
    length = min(len(first), len(last), *map(len, prompts)) - 1
    common = next((place for place in range(length) if first[place] != last[place]), length)
    return common if len(prompts) >= LEAST_ROWS and common >= LEAST_SHARED else 0


def split_by_budget(items: Sequence[Any], tokens: Callable[[Any], int], budget: int) -> list[list[Any]]:
    """Split items, in order, so that count times longest stays within the budget (a longer item goes alone)."""
    batches: list[list[Any]] = []
    longest = 0
    for item in items:
        longest = max(longest, tokens(item))
        if batches and longest * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(item)
        else:
            batches.append([item])
            longest = tokens(item)
    return batches


def _start(work: Work, order: DecodeOrder) -> _Row:
    sampler = order.sampler
    return _Row(work, order, None if sampler is None else sampler.uniforms(work.ids, order.max_new_tokens))


def _choose(logits: Tensor, rows: Sequence[_Row | None]) -> Tensor:
    """Choose the next token of each row; any token for a finished one."""
    tokens = logits.argmax(dim=-1)
    places, uniforms, temperatures, masses = [], [], [], []
    for place, row in enumerate(rows):
        if row is None:
            continue
        sampler = row.order.sampler
        if sampler is not None and row.uniforms is not None:
            places.append(place)
            uniforms.append(float(row.uniforms[len(row.ids)]))
            temperatures.append(sampler.temperature)
            masses.append(sampler.top_p)
    if places:
        chosen = torch.tensor(places, device=logits.device)
        given = [torch.tensor(v, dtype=torch.float64, device=logits.device) for v in (uniforms, temperatures, masses)]
        tokens[chosen] = draw(logits[chosen], *given)
    return tokens


def _is_out_of_memory(error: RuntimeError) -> bool:
    text = str(error)
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in text or "out of memory" in text
