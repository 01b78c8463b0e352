"""A pair as one sequence: prompt, chosen, rejected, where the two answers cannot see each other."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class PackedPairs:
    """One row a pair, padded on the right.

    Attributes:
        ids: Token ids (pairs, length).
        positions: Positions (pairs, length); the rejected answer counts on from the prompt, as the chosen one does.
        mask: What each token may see (pairs, 1, length, length), added to the attention scores.
        rows: Row of the hidden state that predicts each labelled token, in the order of the labels (flat).
        columns: Its column.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor


def pack(ids: torch.Tensor, attention: torch.Tensor, labels: torch.Tensor, dtype: torch.dtype) -> PackedPairs | None:
    """Pack a batch of TRL's collator.

    Args:
        ids: Token ids (2 x pairs, length), the chosen rows before the rejected ones.
        attention: 1 for tokens, 0 for padding on the right.
        labels: Token ids of the answers, -100 elsewhere.
        dtype: Type of the mask.

    Returns:
        The packed batch, or ``None`` when the rows are not pairs with a common prompt and two answers.
    """
    if ids.shape[0] % 2 or (labels != -100).sum(1).min() == 0:
        return None
    pairs = ids.shape[0] // 2
    starts = (labels != -100).int().argmax(1).tolist()
    ends = attention.sum(1).tolist()
    answers = [(starts[row], ends[row], starts[row + pairs], ends[row + pairs]) for row in range(pairs)]
    for row, (start, _, other, _) in enumerate(answers):
        if start != other or start == 0 or not torch.equal(ids[row, :start], ids[row + pairs, :start]):
            return None
    length = max(end + other_end - start for start, end, _, other_end in answers)
    packed = ids.new_zeros(pairs, length)
    positions = ids.new_zeros(pairs, length)
    seen = torch.ones(length, length, dtype=torch.bool).tril().repeat(pairs, 1, 1)
    columns: list[list[int]] = [[] for _ in ids]
    for row, (start, end, _, other_end) in enumerate(answers):
        whole = end + other_end - start
        packed[row, :end] = ids[row, :end]
        packed[row, end:whole] = ids[row + pairs, start:other_end]
        positions[row, :end] = torch.arange(end)
        positions[row, end:whole] = torch.arange(start, other_end)
        seen[row, end:whole, start:end] = False
        # A token is predicted one column before it; the first of either answer by the prompt's last.
        columns[row] = list(range(start - 1, end - 1))
        columns[row + pairs] = [start - 1, *range(end, whole - 1)]
    # Padding sees what comes before it: never read, and no row of the attention is empty.
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min).unsqueeze(1)
    rows = [row % pairs for row, found in enumerate(columns) for _ in found]
    return PackedPairs(
        packed, positions, mask, torch.tensor(rows), torch.tensor([column for found in columns for column in found])
    )
