"""The rewriter's recipes: every key is written down, and what they ask for is what the stages do."""

from pathlib import Path
from typing import get_args

import pytest
import yaml

from utilitune.errors import ConfigError
from utilitune.recipe import Recipe
from utilitune.recipe.identities import named_models, named_utilities
from utilitune.recipe.schema import Pairs, RewriterSection
from utilitune.rewrite.candidate import Source

RECIPES = Path(__file__).resolve().parents[3] / "recipes"
NAMES = ["rewriter-qrecc-cpu", "rewriter-qrecc-gpu", "rewriter-topiocqa-gpu"]


def keys(prefix, value):
    if isinstance(value, dict):
        return {found for name, inner in value.items() for found in keys(f"{prefix}.{name}".lstrip("."), inner)}
    return {prefix}


@pytest.mark.parametrize("name", NAMES)
def test_every_key_of_the_rewriter_is_pinned(name):
    raw = yaml.safe_load((RECIPES / name / "recipe.yaml").read_text())
    recipe = Recipe.load(RECIPES / name / "recipe.yaml")
    whole = keys("", recipe.rewriter.model_dump(mode="json"))
    missing = {key for key in whole if not key.startswith("base")} - keys("", raw["rewriter"])
    assert not missing
    assert recipe.name == name and recipe.seed == raw["seed"]
    assert recipe.rewriter.methods == ["sft", "dpo", "grpo"]
    assert (RECIPES / name / "README.md").is_file()


def test_bm25_is_set_as_published():
    loaded = {name: Recipe.load(RECIPES / name / "recipe.yaml").retrievers["bm25"] for name in NAMES}
    assert [(loaded[name].k1, loaded[name].b) for name in NAMES] == [(0.82, 0.68), (0.82, 0.68), (0.9, 0.4)]


def test_a_pinned_base_is_a_mapping_that_counts():
    path = RECIPES / "rewriter-qrecc-gpu" / "recipe.yaml"
    recipe = Recipe.load(path, ["rewriter.base={model: Qwen/Qwen2.5-3B-Instruct, revision: abc}"])
    assert recipe.rewriter.base_spec == {"model": "Qwen/Qwen2.5-3B-Instruct", "revision": "abc"}
    assert named_models(recipe)["rewriter.base"] == "Qwen/Qwen2.5-3B-Instruct"
    assert recipe.value("rewriter.base") == {"model": "Qwen/Qwen2.5-3B-Instruct", "revision": "abc"}
    assert RewriterSection().base_spec == "packaged:smollm2-135m-instruct"


def test_a_second_round_needs_who_samples_and_who_prefers():
    sampling = {"resample": {"n": 2}}
    assert RewriterSection(methods=["sft", "dpo"], **sampling).second_round.n == 2
    assert RewriterSection(methods=["dpo", "grpo"], **sampling).second_round is None
    assert RewriterSection(methods=["sft", "dpo"]).second_round is None


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("rewriter.methods=[dpo, sft]", "in this order, once"),
        ("rewriter.methods=[]", "rewriter.methods"),
        ("rewriter.methods=[ppo]", "rewriter.methods.0"),
        ("rewriter={methods: [grpo], yardsticks: [gold-rank]}", "yardsticks"),
        ("rewriter.reward.utilities=[gold-rank]", "grpo and best_of must do without"),
        ("rewriter.yardsticks=[bleu]", "rewriter.yardsticks.0"),
        ("rewriter.pairs.pairing=some", "rewriter.pairs.pairing"),
        ("rewriter.pairs.sources=[mine]", "rewriter.pairs.sources.0"),
        ("rewriter.pairs.sources=[greedy]", "candidates gives fewer than two texts a turn"),
        ("rewriter.pairs.sources=[greedy, original]", "resample gives fewer than two texts a turn"),
        ("evaluation.transfer=[a/dev, b/dev]", "two folders are named 'dev'"),
        ("evaluation.transfer=[a/runs]", "found the name 'runs'"),
        ("rewriter.candidates.include=[human]", "rewriter.candidates.include.0"),
    ],
)
def test_what_is_wrong_is_named(override, said):
    with pytest.raises(ConfigError, match=said):
        Recipe.load(RECIPES / "rewriter-qrecc-cpu" / "recipe.yaml", [override])


def test_a_reward_by_gold_rank_is_no_utility_of_the_generator():
    path = RECIPES / "rewriter-qrecc-cpu" / "recipe.yaml"
    plain = ["rewriter.methods=[dpo]", "rewriter.best_of=0"]
    recipe = Recipe.load(path, ["rewriter.reward.utilities=[gold-rank, entropy-drop]", *plain])
    assert named_utilities(recipe) == {"rewriter.reward.utilities": ["entropy-drop"]}


def test_the_sources_of_pairs_are_those_of_candidates():
    listed = get_args(get_args(Pairs.model_fields["sources"].annotation)[0])
    assert listed == get_args(Source)
