"""What the tables say beyond the values: the share of the judgements' gain, and the rows set against each other."""

from utilitune.evaluation import Row
from utilitune.recipe.stages.reranker_table import _against_judgements, _kept_gain


def block(**means):
    """Rows of one retriever with two questions each, whose mean is given in hundredths."""
    names = {
        "first": "first stage",
        "gold": "trained on gold relevance",
        "other": "trained on entropy-drop",
        "tuned": "tuned reranker",
        "mixed_gold": "trained on gold relevance + first stage",
        "mixed_tuned": "tuned reranker + first stage",
        "oracle": "oracle by utility",
    }
    rows = {names[key]: {"nDCG@10": {"a": (mean - 5) / 100, "b": (mean + 5) / 100}} for key, mean in means.items()}
    return {name: Row(name, values, "bm25") for name, values in rows.items()}


def test_the_gain_is_told_as_a_share_of_that_of_judged_training():
    rows = block(first=50, gold=60, other=45, tuned=59, mixed_gold=70, mixed_tuned=60, oracle=90)
    assert _kept_gain(rows, ["MRR@10", "nDCG@10"]) == [
        "nDCG@10, gain over the first stage: trained on gold relevance +0.100, "
        "trained on entropy-drop -0.050 (-50% of it), tuned reranker +0.090 (90% of it).",
        "nDCG@10, gain over the first stage: trained on gold relevance + first stage +0.200, "
        "tuned reranker + first stage +0.100 (50% of it).",
    ]


def test_without_a_gain_of_judged_training_there_is_no_share():
    assert _kept_gain(block(first=50, gold=40, tuned=55), ["nDCG@10"]) == [
        "nDCG@10, gain over the first stage: trained on gold relevance -0.100, tuned reranker +0.050."
    ]
    assert _kept_gain(block(first=50, tuned=55), ["nDCG@10"]) == []
    assert _kept_gain(block(first=50, gold=40, tuned=55), ["MRR@10"]) == []


def test_trainings_are_set_against_the_judged_one_alone_and_with_the_first_stage():
    rows = block(first=50, gold=60, other=45, tuned=59, mixed_gold=70, mixed_tuned=60, oracle=90)
    table = _against_judgements("bm25", rows, ["nDCG@10"])
    assert [(row.block, row.name) for row in table.rows] == [
        ("bm25, reranker alone", "trained on gold relevance"),
        ("bm25, reranker alone", "trained on entropy-drop"),
        ("bm25, reranker alone", "tuned reranker"),
        ("bm25, first stage added", "trained on gold relevance"),
        ("bm25, first stage added", "tuned reranker"),
    ]
    changes = {
        (block, name): round(cell.change.difference, 9) if cell.change else None
        for (block, name, _), cell in table.cells().items()
    }
    assert changes["bm25, reranker alone", "tuned reranker"] == -0.01
    assert changes["bm25, first stage added", "tuned reranker"] == -0.1
    assert changes["bm25, reranker alone", "trained on gold relevance"] is None
