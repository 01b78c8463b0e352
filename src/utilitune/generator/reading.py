"""Reading prompts: every shared segment once, in batches of like lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby

from utilitune.generator.causal_model import CausalModel, Prefix
from utilitune.generator.prompt_tree import Ids, Segment, path, prompt_tree, reading_order

Batches = Callable[[Sequence[int], Sequence[int]], list[list[int]]]


class Reading:
    """Prompts of one run, read part by part; what a later part shares with an earlier one is kept until then.

    Args:
        model: The model.
        prompts: All distinct prompts of the run.
        least: A segment is shared when that saves at least so many tokens.
        batches: Cuts rows, given the tokens that each adds and has before, into batches.
    """

    def __init__(self, model: CausalModel, prompts: Sequence[Ids], least: int, batches: Batches) -> None:
        self._model = model
        self._batches = batches
        segments, self._ends = prompt_tree(prompts, least)
        self.order = reading_order(segments, self._ends)
        self._read: dict[Segment, Prefix] = {}
        # How many prompts still need a segment.
        self._needed = Counter(each for end in self._ends.values() for each in path(end))

    def read(self, prompts: Sequence[Ids]) -> dict[Ids, Prefix]:
        """Read some of the prompts.

        Args:
            prompts: Those wanted now.

        Returns:
            What the model has read of each.
        """
        missing = {each: None for ids in prompts for each in path(self._ends[ids]) if each not in self._read}
        for _, level in groupby(sorted(missing, key=lambda each: each.depth), key=lambda each: each.depth):
            rows = list(level)
            for places in self._batches([len(each.ids) for each in rows], [each.past for each in rows]):
                self._extend([rows[place] for place in places])
        return {ids: self._read[self._ends[ids]] for ids in prompts}

    def done(self, prompts: Sequence[Ids]) -> None:
        """Let go of what no other prompt needs."""
        for ids in prompts:
            for each in path(self._ends[ids]):
                self._needed[each] -= 1
                if not self._needed[each]:
                    self._read.pop(each, None)

    def forget_own(self, prompts: Sequence[Ids]) -> None:
        """Let go of the prompts' own segments, which can be read again."""
        for ids in prompts:
            self._read.pop(self._ends[ids], None)

    def _extend(self, part: Sequence[Segment]) -> None:
        lengths = [len(each.ids) for each in part]
        keep = max(lengths) - min(lengths) + 1
        past = [self._read[each.parent] if each.parent else None for each in part]
        features, spans = self._model.extend(past, [each.ids for each in part], keep)
        for row, each in enumerate(part):
            # A copy: the batch's features are not kept for the sake of one column.
            last = features[row, lengths[row] - 1 - max(lengths) + keep].clone()
            self._read[each] = Prefix(spans[row], last)
