"""The correlation study with the packaged chat model on the invented world: it runs, and a second run asks nothing."""

import pytest

from utilitune import Bm25Retriever
from utilitune.evaluation import study_correlation, write_correlation
from utilitune.generator import load_generator
from utilitune.sample import make_sample

pytestmark = pytest.mark.integration


def test_a_small_study_and_its_second_run(tmp_path):
    world = make_sample(passages=300, questions=20, conversations=1)
    world = world.subset([query for query in world.queries if not query.history])
    generator = load_generator("packaged:smollm2-135m-instruct", dtype="float32")
    systems = {"bm25": Bm25Retriever.build(world.corpus)}
    options = {"limit": 5, "position": 3, "ideal": 2, "resamples": 50, "store": tmp_path / "responses.sqlite"}
    study = study_correlation(world, generator, systems, [1, 3], **options)
    assert study.counts["questions studied"] == 5
    assert study.counts["lists"] == 10
    assert study.counts["lists without an answer"] == 0
    assert all(0 < u < 1 for ranked in study.lists for u in ranked.utilities)
    again = study_correlation(world, generator, systems, [1, 3], **options)
    assert sum(part.computed for part in again.timing.values()) == 0
    assert again.correlations == study.correlations
    assert all(path.stat().st_size for path in write_correlation(tmp_path / "out", study).values())
