"""What prompts share: a tree of segments, so that a common opening is read once, and batches of little padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Ids = tuple[int, ...]
# Enough for any accelerator; the best cut is looked for among so many at most.
MOST_ROWS = 512


@dataclass(frozen=True, eq=False)
class Segment:
    """Tokens that some prompts have in common after what their parent holds.

    Attributes:
        ids: At least one id.
        parent: The segment before it, ``None`` at the beginning.
        depth: How many segments lie before it.
        past: How many tokens lie before it.
    """

    ids: Ids
    parent: Segment | None
    depth: int
    past: int


def prompt_tree(prompts: Sequence[Ids], least: int) -> tuple[list[Segment], dict[Ids, Segment]]:
    """Cut prompts into segments that are worth being read once.

    Args:
        prompts: Distinct prompts of at least one id, any order.
        least: A segment is shared when that saves at least so many tokens.

    Returns:
        All segments, parents first, and the last segment of each prompt (its own: no two prompts end in the same one).
    """
    segments: list[Segment] = []
    ends: dict[Ids, Segment] = {}
    ordered = sorted(prompts)
    todo: list[tuple[int, int, int, Segment | None]] = [(0, len(ordered), 0, None)] if ordered else []

    def add(ids: Ids, parent: Segment | None, past: int) -> Segment:
        segments.append(Segment(ids, parent, parent.depth + 1 if parent else 0, past))
        return segments[-1]

    while todo:
        first, last, start, parent = todo.pop()
        if last - first == 1:
            ends[ordered[first]] = add(ordered[first][start:], parent, start)
            continue
        # In order, so what the first and the last have in common all have; each keeps a token of its own.
        common = _common(ordered[first], ordered[last - 1], len(ordered[first]) - 1)
        if (common - start) * (last - first - 1) >= least:
            parent = add(ordered[first][start:common], parent, start)
            start = common
        begin = first
        if len(ordered[first]) == common + 1:
            # It ends here, whatever the others go on with.
            todo.append((first, first + 1, start, parent))
            begin += 1
        for at in range(begin + 1, last + 1):
            if at == last or ordered[at][: common + 1] != ordered[begin][: common + 1]:
                todo.append((begin, at, start, parent))
                begin = at
    segments.sort(key=lambda each: each.depth)
    return segments, ends


def _common(one: Ids, other: Ids, limit: int) -> int:
    return next((at for at in range(limit) if one[at] != other[at]), limit)


def reading_order(segments: Sequence[Segment], ends: Mapping[Ids, Segment]) -> list[Ids]:
    """Order prompts so that those with a common segment stand together, and longest first among equals.

    Args:
        segments: From ``prompt_tree``.
        ends: From ``prompt_tree``.

    Returns:
        The prompts.
    """
    number = {each: place for place, each in enumerate(segments)}
    reach: dict[Segment, int] = {}
    for each in reversed(segments):
        reach[each] = max(reach.get(each, 0), each.past + len(each.ids))
        if each.parent:
            reach[each.parent] = max(reach.get(each.parent, 0), reach[each])

    return sorted(ends, key=lambda prompt: [(-reach[each], number[each]) for each in path(ends[prompt])])


def path(segment: Segment) -> list[Segment]:
    """Return the segments from the beginning of a prompt to one of its segments."""
    found = [segment]
    while found[-1].parent is not None:
        found.append(found[-1].parent)
    return found[::-1]


def length_batches(
    new: Sequence[int], past: Sequence[int], budget: int, overhead: int, columns: int | None = None
) -> list[list[int]]:
    """Cut rows into batches so that as few tokens as possible are run, padding included.

    Args:
        new: Tokens that each row adds; a batch is as wide as its longest row.
        past: Tokens that each row has before.
        budget: Slots in a batch, padding included; a longer row goes alone.
        overhead: What one more batch costs, in tokens.
        columns: Where positions are dear (a model hands out logits): rows times the spread of lengths in a batch that
            may be kept; ``None`` for no limit.

    Returns:
        Places of the rows, batch by batch, longest rows first.
    """
    order = sorted(range(len(new)), key=lambda place: (-new[place], -past[place], place))
    best, cut = [0.0], [0]
    for end in range(1, len(order) + 1):
        cost, at, before = float("inf"), end - 1, 0
        for begin in range(end - 1, -1, -1):
            rows, longest = end - begin, new[order[begin]]
            before = max(before, past[order[begin]])
            spread = longest - new[order[end - 1]] + 1
            over = rows * (before + longest) > budget or bool(columns and rows * spread > columns)
            if rows > 1 and (over or rows > MOST_ROWS):
                break
            if best[begin] + rows * longest + overhead < cost:
                cost, at = best[begin] + rows * longest + overhead, begin
        best.append(cost)
        cut.append(at)
    batches, end = [], len(order)
    while end:
        batches.append(order[cut[end] : end])
        end = cut[end]
    return batches[::-1]
