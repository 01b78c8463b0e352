"""The reranker's recipe: every key is written down, and what it asks for is what the issue's table needs."""

from pathlib import Path

import yaml

from utilitune.recipe import Recipe, plan
from utilitune.recipe.identities import named_models, named_utilities
from utilitune.recipe.stages.reranker_systems import reranked_rows

RECIPE = Path(__file__).resolve().parents[3] / "recipes" / "reranker-nq-cpu" / "recipe.yaml"


def keys(prefix, value):
    if isinstance(value, dict):
        return {found for name, inner in value.items() for found in keys(f"{prefix}.{name}".lstrip("."), inner)}
    return {prefix}


def test_every_key_of_the_reranker_is_pinned():
    raw, recipe = yaml.safe_load(RECIPE.read_text()), Recipe.load(RECIPE)
    whole = keys("", recipe.reranker.model_dump(mode="json"))
    assert keys("", raw["reranker"]) == whole
    assert (recipe.name, recipe.seed) == ("reranker-nq-cpu", raw["seed"])
    assert (RECIPE.parent / "README.md").is_file()


def test_it_compares_judgements_and_three_utilities_over_two_first_stages():
    recipe = Recipe.load(RECIPE, ["data=sample"])
    section = recipe.reranker
    assert [*recipe.retrievers] == section.first_stages == ["bm25", "dense"]
    assert section.utilities == ["question-gain"] and section.rivals == ["gold", "entropy-drop", "abstention"]
    assert named_utilities(recipe)["reranker.rivals"] == ["entropy-drop", "abstention"]
    assert named_models(recipe)["reranker.second_generator"] != recipe.generator
    assert len(reranked_rows(section)) == 9
    assert section.depth == 20 and recipe.evaluation.answer_ks == [1, 3, 5]
    stages = [line.partition(":")[0] for line in plan(recipe)]
    wanted = ["retrieve", "label", "label-rivals", "train-reranker", "train-rivals", "rerank", "utility", "answer"]
    assert [name for name in stages if name in wanted] == wanted
