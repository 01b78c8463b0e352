"""The signal of the packaged chat model on the invented world: gold passages are worth more than hard ones."""

import pytest

from utilitune.evaluation import study_signal, write_signal
from utilitune.generator import load_generator
from utilitune.sample import make_sample

pytestmark = pytest.mark.integration


def test_gold_passages_are_worth_more(tmp_path):
    world = make_sample(passages=300, questions=40, conversations=1)
    world = world.subset([query for query in world.queries if not query.history])
    generator = load_generator("packaged:smollm2-135m-instruct", dtype="float32")
    study = study_signal(world, generator, ["information-gain", "entropy-drop"], limit=5)
    assert study.counts["questions studied"] == 5
    assert study.counts["pairs with a right answer"] >= 2, "invented facts: only the passages can tell"
    for signal in study.signals:
        assert signal.n == 30
        assert signal.hard.share > 0.55
        assert signal.random.share > 0.55
        assert signal.gold.auroc > 0.5
    paths = write_signal(tmp_path, study)
    assert all(path.stat().st_size for path in paths.values())
