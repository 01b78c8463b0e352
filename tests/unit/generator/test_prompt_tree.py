"""Which tokens are read once, and how rows are put into batches."""

import inspect
import random
import sys
from itertools import pairwise

import pytest

from utilitune.generator.prompt_tree import length_batches, prompt_tree, reading_order


def spelled(segment):
    return (*(spelled(segment.parent) if segment.parent else ()), *segment.ids)


def test_by_hand():
    opening = (1,) * 10
    prompts = [(*opening, 2, 3), (*opening, 2, 4), (*opening, 5), (6,)]
    segments, ends = prompt_tree(prompts, least=10)
    # Ten tokens shared by three save twenty; the 2 of two prompts would save one.
    roots = {(each.ids, each.depth, each.past) for each in segments if not each.parent}
    assert roots == {(opening, 0, 0), ((6,), 0, 0)}
    assert {ends[prompt].ids for prompt in prompts} == {(2, 3), (2, 4), (5,), (6,)}
    segments, _ = prompt_tree(prompts, least=1)
    assert sorted(each.ids for each in segments) == [opening, (2,), (3,), (4,), (5,), (6,)]


def test_a_prompt_that_begins_another_keeps_a_token_of_its_own():
    prompts = [(1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5), (1, 2)]
    segments, ends = prompt_tree(prompts, least=1)
    assert all(spelled(ends[prompt]) == prompt for prompt in prompts)
    assert len({id(end) for end in ends.values()}) == 4
    assert all(each.ids for each in segments)


@pytest.mark.parametrize("least", [1, 8, 1000])
def test_every_prompt_is_spelled_by_its_segments(least):
    rng = random.Random(0)
    prompts = list({tuple(rng.choices((1, 2), k=rng.randint(1, 30))) for _ in range(300)})
    segments, ends = prompt_tree(prompts, least)
    assert all(spelled(ends[prompt]) == prompt for prompt in prompts)
    assert [each.depth for each in segments] == sorted(each.depth for each in segments)
    assert all(each.past == len(spelled(each)) - len(each.ids) for each in segments)
    read = sum(len(each.ids) for each in segments)
    nodes = {prompt[:length] for prompt in prompts for length in range(1, len(prompt) + 1)}
    assert len(nodes) <= read <= sum(map(len, prompts))
    if least == 1000:
        assert len(segments) == len(prompts)


def test_what_is_shared_stands_together_and_long_prompts_first():
    one, two = (1,) * 20, (2,) * 20
    prompts = [(*one, 3), (*two, 3, 3, 3), (*one, 4, 4, 4, 4), (*two, 4), (5, 5)]
    segments, ends = prompt_tree(prompts, least=10)
    assert reading_order(segments, ends) == [prompts[2], prompts[0], prompts[1], prompts[3], prompts[4]]


def test_beginnings_of_one_long_text_are_no_deeper_than_the_stack():
    """Each prompt begins the next one, and every token is a segment worth being shared."""
    text = tuple(range(300))
    prompts = [text[:length] for length in range(1, 301)]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        segments, ends = prompt_tree(prompts, least=1)
        order = reading_order(segments, ends)
    finally:
        sys.setrecursionlimit(limit)
    assert max(each.depth for each in segments) > 200
    assert set(order) == set(prompts)


def test_no_prompt_no_segment():
    assert prompt_tree([], 1) == ([], {})
    assert reading_order([], {}) == []
    assert length_batches([], [], 100, 1) == []


def test_lengths_far_apart_do_not_share_a_batch():
    assert length_batches([10, 100, 11, 101], [0] * 4, 10_000, 32) == [[3, 1], [2, 0]]
    # One more batch costs more than the padding.
    assert length_batches([10, 100, 11, 101], [0] * 4, 10_000, 500) == [[3, 1, 2, 0]]
    # The budget counts what lies before; what is too long goes alone.
    assert length_batches([10, 10, 10], [0, 50, 0], 120, 5) == [[1, 0], [2]]
    assert length_batches([10, 10], [500, 0], 100, 5) == [[0], [1]]


def test_best_of_all_cuts():
    rng = random.Random(1)
    for _ in range(30):
        new = [rng.randint(1, 60) for _ in range(8)]
        got = length_batches(new, [0] * 8, 150, 20)
        assert sorted(place for batch in got for place in batch) == list(range(8))

        def cost(batches):
            return sum(20 + len(batch) * max(batch) for batch in batches)

        ordered = sorted(new, reverse=True)
        cuts = [[at for at in range(7) if mask >> at & 1] for mask in range(128)]
        every = []
        for cut in cuts:
            ends = [0, *[at + 1 for at in cut], 8]
            batches = [ordered[a:b] for a, b in pairwise(ends)]
            if all(len(batch) == 1 or len(batch) * max(batch) <= 150 for batch in batches):
                every.append(cost(batches))
        assert cost([[new[place] for place in batch] for batch in got]) == min(every)


def test_columns_that_are_handed_out_bound_a_batch():
    got = length_batches([30, 20, 10], [0] * 3, 10_000, 1000, columns=22)
    assert got == [[0, 1], [2]]
    assert length_batches([30, 30, 30], [0] * 3, 10_000, 1000, columns=3) == [[0, 1, 2]]
