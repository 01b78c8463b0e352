"""Answers of a real model: reads its passages, resumes from the store, scores."""

import pytest

from utilitune.evaluation import answer_questions, evaluate
from utilitune.generator import load_generator
from utilitune.records import Dataset, Passage, Query, Run

pytestmark = pytest.mark.integration

FACTS = {
    "p1": ("Which river runs through Tarnholm?", "Velda", "The river Velda runs through the town of Tarnholm."),
    "p2": ("Who founded the Orrin Mill?", "Edda Marsh", "The Orrin Mill was founded in 1871 by Edda Marsh."),
    "p3": ("In which year did the Kestrel Bridge open?", "1934", "The Kestrel Bridge opened to traffic in 1934."),
    "p4": ("What colour is the flag of Brask?", "purple", "The flag of Brask is purple all over."),
}


def test_real_model_reads_the_passages_and_a_second_run_is_free(tmp_path):
    corpus = [Passage(pid, text) for pid, (_, _, text) in FACTS.items()]
    queries = [Query(f"q-{pid}", question, answers=(gold,)) for pid, (question, gold, _) in FACTS.items()]
    dataset = Dataset(corpus, queries, {f"q-{pid}": {pid: 1.0} for pid in FACTS})
    run = Run({f"q-{pid}": [(pid, 1.0)] for pid in FACTS})
    generator = load_generator("packaged:smollm2-135m-instruct", dtype="float32")
    store = tmp_path / "store.sqlite"
    grounded = answer_questions(queries, run, dataset.passages(), generator, store=store)
    bare = answer_questions(queries, run, dataset.passages(), generator, k=0, store=store)
    result = evaluate(
        dataset, {"grounded": run}, ["MRR@10", "contains", "F1"], answers={"grounded": grounded, "bare": bare}
    )
    # Invented names: without its passage no model can know them.
    assert result.mean("grounded", "contains") >= 0.5
    assert result.mean("bare", "contains") == 0.0
    assert result.mean("grounded", "MRR@10") == 1.0
    assert all(answer.logprob_mean is not None and answer.logprob_mean <= 0 for answer in grounded)

    def refuse(tasks):
        raise AssertionError("the store has everything")

    generator.run = refuse
    assert answer_questions(queries, run, dataset.passages(), generator, store=store) == grounded
