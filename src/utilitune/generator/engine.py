"""One prefill of each distinct prompt, then everything that is wanted of it: decoded answers and scored texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, groupby
from typing import Any

import torch
from torch import Tensor

from utilitune.generator.answer_text import AnswerText
from utilitune.generator.causal_model import CausalModel, Prefix
from utilitune.generator.contrast import ContrastWork, contrast_stats
from utilitune.generator.decoding import DecodeOrder, Decoder, Numbers
from utilitune.generator.entropy import feature_stats
from utilitune.generator.prompt_tree import length_batches
from utilitune.generator.reading import Reading

# Logits held at once by models whose head cannot be applied position by position: 2^28 float32 values are 1 GiB.
MAX_HELD_LOGITS = 1 << 28
# What one more pass costs, in tokens: mostly reading the weights once; on an accelerator, starting its kernels.
OVERHEAD = {"cpu": 32}
OVERHEAD_ACCELERATOR = 1024


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
        self._decoder = Decoder(model, answer_text, end_ids)
        self._budget = batch_tokens
        self._overhead = OVERHEAD.get(model.device.type, OVERHEAD_ACCELERATOR)
        self.out_of_memory = 0

    def run(self, work: Sequence[Work]) -> None:
        """Fill in the results of all work; prompts that share much stand together, the longest first.

        Args:
            work: Distinct prompts.
        """
        by_ids = {item.ids: item for item in work}
        with torch.inference_mode():
            reading = self._reading(list(by_ids))
            ordered = [by_ids[ids] for ids in reading.order]
            for batch in split_by_budget(ordered, lambda item: len(item.ids), self._budget):
                self._run_batch(batch, partial(self._run_once, reading))

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

    def _run_once(self, reading: Reading, batch: Sequence[Work]) -> None:
        prompts = [item.ids for item in batch]
        try:
            read = reading.read(prompts)
            self._score(batch, read)
            self._write(batch, read)
        except RuntimeError:
            reading.forget_own(prompts)
            raise
        reading.done(prompts)

    def _write(self, batch: Sequence[Work], read: Mapping[tuple[int, ...], Prefix]) -> None:
        """Write all answers that are wanted of prompts that were read, those of one kind together."""
        orders = [(item, order) for item in batch for order in item.decode]
        orders.sort(key=lambda pair: pair[1].kind)
        for _, alike in groupby(orders, key=lambda pair: pair[1].kind):
            for part in split_by_budget(
                list(alike), lambda pair: len(pair[0].ids) + pair[1].max_new_tokens, self._budget
            ):
                answers = self._decoder.write([(item.ids, read[item.ids], order) for item, order in part])
                for (item, order), numbers in zip(part, answers, strict=True):
                    item.decoded[order] = numbers

    def _score(self, batch: Sequence[Work], read: Mapping[tuple[int, ...], Prefix]) -> None:
        """Score all continuations that are wanted of prompts that were read."""
        wanted = [(item, ids) for item in batch for ids in item.score]
        for places in self._batches([len(ids) - 1 for _, ids in wanted], [len(item.ids) for item, _ in wanted]):
            part = [wanted[place] for place in places]
            features, targets = self._continued([(read[item.ids], ids) for item, ids in part])
            found = feature_stats(self._model.logits, features, targets, self._model.vocabulary)
            for (item, ids), logprobs, entropies in zip(part, *_cut(found, [ids for _, ids in part]), strict=True):
                item.scored[ids] = Numbers(ids, logprobs, entropies)

    def _contrast_once(self, batch: Sequence[ContrastWork]) -> None:
        prompts = list(dict.fromkeys(ids for item in batch for ids in (item.ids, item.other)))
        read = self._reading(prompts).read(prompts)
        texts = [item.text for item in batch]
        ours, targets = self._continued([(read[item.ids], item.text) for item in batch])
        theirs, _ = self._continued([(read[item.other], item.text) for item in batch])
        alpha = torch.tensor([item.alpha for item in batch for _ in item.text], device=self._model.device)
        found = contrast_stats(self._model.logits, (ours, theirs), targets, alpha, self._model.vocabulary)
        for item, logprobs, entropies in zip(batch, *_cut(found, texts), strict=True):
            item.logprobs, item.entropies = logprobs, entropies

    def _cost(self, width: int, length: int) -> int:
        """Return what a continuation counts against the budget; more when a model hands out logits, not states."""
        if self._model.gives_states:
            return width + length
        return max(width + length, self._budget * length * self._model.vocabulary // MAX_HELD_LOGITS)

    def _reading(self, prompts: Sequence[tuple[int, ...]]) -> Reading:
        columns = None if self._model.gives_states else max(1, MAX_HELD_LOGITS // self._model.vocabulary)
        return Reading(
            self._model,
            prompts,
            self._overhead,
            lambda new, past: length_batches(new, past, self._budget, self._overhead, columns),
        )

    def _batches(self, new: Sequence[int], past: Sequence[int]) -> list[list[int]]:
        """Cut continuations into batches; where logits are handed out, so that those of all columns can be held."""
        if self._model.gives_states:
            return length_batches(new, past, self._budget, self._overhead)
        held = max(1, MAX_HELD_LOGITS // self._model.vocabulary)
        return length_batches(new, [0] * len(new), min(self._budget, held), self._overhead)

    def _continued(self, wanted: Sequence[tuple[Prefix, tuple[int, ...]]]) -> tuple[Tensor, Tensor]:
        """Run continuations of prompts.

        Args:
            wanted: The prompt, and ids of the continuation.

        Returns:
            Features before each token, ``[tokens, width]``, and the tokens, ``[tokens]``, one continuation after the
            other.
        """
        first = torch.stack([prefix.feature for prefix, _ in wanted]).unsqueeze(1)
        longest = max(len(ids) for _, ids in wanted)
        columns = first.expand(-1, longest, -1)
        # The last token is never run: nothing after it is wanted.
        longer = [row for row, (_, ids) in enumerate(wanted) if len(ids) > 1]
        if longer:
            past, segments = [wanted[row][0] for row in longer], [wanted[row][1][:-1] for row in longer]
            later, _ = self._model.extend(past, segments, longest - 1)
            columns = columns.clone()
            columns[torch.tensor(longer, device=first.device), 1:] = later
        rows = [row for row, (_, ids) in enumerate(wanted) for _ in ids]
        places = [place for _, ids in wanted for place in range(len(ids))]
        tokens = [token for _, ids in wanted for token in ids]
        chosen = torch.tensor([rows, places, tokens], device=first.device)
        return columns[chosen[0], chosen[1]], chosen[2]


def _cut(numbers: tuple[Tensor, Tensor], texts: Sequence[Sequence[int]]) -> list[list[tuple[float, ...]]]:
    """Cut the numbers of texts that follow one another, one list a kind; one transfer from the device."""
    ends = list(accumulate(map(len, texts)))
    both = torch.stack(numbers).tolist()
    return [[tuple(flat[end - len(ids) : end]) for end, ids in zip(ends, texts, strict=True)] for flat in both]


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


def _is_out_of_memory(error: RuntimeError) -> bool:
    text = str(error)
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in text or "out of memory" in text
