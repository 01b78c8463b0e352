"""Several utilities asked for together cost hardly more than the dearest of them."""

import pytest
from tiny_generator import Counted, TinyNumpy

from utilitune.scoring import label

SHORT = ",max_new_tokens=4"
THREE = ["information-gain", "entropy-drop", "grogu:key-entropy"]


def tokens_run(world, specs):
    """Tokens that go through the model: each prompt of a task once, and what is decoded or scored after it."""
    counted = Counted(TinyNumpy(seed=1))
    label(*world, [spec + SHORT for spec in specs], counted, k=3)
    total = 0
    for tasks in counted.calls:
        prompts = {task.prompt: [task.max_new_tokens, *map(len, task.continuations)] for task in tasks}
        assert len(prompts) == len(tasks), "one task a prompt"
        total += sum(len(counted.inner.prompt_ids(prompt)) + sum(after) for prompt, after in prompts.items())
    return total


@pytest.mark.parametrize("specs", [THREE, ["grogu:mean-entropy", "grogu:max-entropy", "grogu:mean-logprob"], THREE[:2]])
def test_together_they_cost_little_more_than_the_dearest(specs, world):
    dearest = max(tokens_run(world, [spec]) for spec in specs)
    together = tokens_run(world, specs)
    assert dearest <= together <= 1.15 * dearest
