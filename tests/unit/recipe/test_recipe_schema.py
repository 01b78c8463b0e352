import pytest

from utilitune.errors import ConfigError
from utilitune.recipe import Recipe

GOOD = """
name: tiny
out: runs/tiny
data: sample
retrievers: {bm25: {kind: bm25}}
"""


def write(tmp_path, text):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    return path


def test_defaults_fill_what_a_recipe_leaves_out(tmp_path):
    recipe = Recipe.load(write(tmp_path, GOOD))
    assert recipe.seed == 13
    assert recipe.rewriter.candidates.n == 4
    assert recipe.retrievers["bm25"].k1 == 0.9


def test_all_problems_come_at_once(tmp_path):
    text = GOOD + "sede: 1\nrewriter: {candidates: {n: 0}, training: {lr: fast}}\nreranker: {depht: 5}\n"
    with pytest.raises(ConfigError) as caught:
        Recipe.load(write(tmp_path, text))
    message = str(caught.value)
    assert "4 problem(s)" in message
    assert "sede: unknown key; did you mean 'seed'?" in message
    assert "reranker.depht: unknown key; did you mean 'depth'?" in message
    assert "rewriter.candidates.n" in message
    assert "rewriter.training.lr" in message
    assert "'fast'" in message


def test_names_are_looked_up_before_anything_runs(tmp_path):
    text = GOOD + (
        "rewriter: {reward: {utilities: [gain]}}\n"
        "reranker: {utilities: [entropy], training: {loss: kl}}\n"
        "evaluation: {rewriter_measures: [ndgc]}\n"
    )
    with pytest.raises(ConfigError) as caught:
        Recipe.load(write(tmp_path, text))
    message = str(caught.value)
    assert "4 problem(s)" in message
    for part in ("'gain'", "'entropy'", "'kl'", "'ndgc'", "information-gain", "listwise-kl", "nDCG"):
        assert part in message


def test_a_retriever_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="first_stage.*'dense'.*bm25"):
        Recipe.load(write(tmp_path, GOOD + "reranker: {first_stage: dense}\n"))
    with pytest.raises(ConfigError, match=r"reward.retrievers.*'dense'.*bm25"):
        Recipe.load(write(tmp_path, GOOD + "rewriter: {reward: {retrievers: [dense]}}\n"))


def test_overrides_are_read_as_yaml_and_checked(tmp_path):
    path = write(tmp_path, GOOD)
    recipe = Recipe.load(path, ["rewriter.training.lr=5e-05", "data=some/folder", "rewriter.train_turns=null"])
    assert recipe.rewriter.training.lr == 5e-5
    assert str(recipe.data) == "some/folder"
    assert recipe.rewriter.train_turns is None
    with pytest.raises(ConfigError, match=r"rewriter.trainning: unknown key; did you mean 'training'"):
        Recipe.load(path, ["rewriter.trainning.lr=1"])
    with pytest.raises(ConfigError, match="expected key=value"):
        Recipe.load(path, ["seed"])
    with pytest.raises(ConfigError, match="holds a value"):
        Recipe.load(path, ["name.deeper=1"])


@pytest.mark.parametrize(
    ("text", "message"),
    [("- a\n", "expected a mapping"), ("a: [1\n", "not valid YAML"), ("", "expected a mapping")],
)
def test_files_that_are_no_recipe(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        Recipe.load(write(tmp_path, text))
    with pytest.raises(ConfigError, match="no such recipe"):
        Recipe.load(tmp_path / "missing.yaml")
