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
    with pytest.raises(ConfigError, match=r"first_stage.*'dense'.*bm25"):
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reranker: {training: {loss: bce, rescale: z-score}}\n", r"reranker.training.rescale: loss 'bce'.*min-max"),
        ("reranker: {training: {loss: lambda, rescale: z-score}}\n", r"reranker.training.rescale: loss 'lambda'"),
        ("reranker: {training: {rescale: softmax}}\n", r"rescale: loss 'listwise-kl' takes a softmax itself"),
        ("reranker: {training: {choose_by: loss}}\n", r"training.choose_by: found 'loss', .*nDCG@10, utility@5"),
        ("reranker: {training: {loss: udcg}}\n", r"training.relevance: found none, loss 'udcg' needs gold, answer"),
        ("reranker: {training: {loss: udcg, relevance: golden}}\n", r"relevance: found 'golden', expected gold"),
        (
            "reranker: {utilities: [abstention, question-gain], training: {loss: udcg, relevance: gold}}\n",
            r"reranker.utilities: found abstention, question-gain, expected the one",
        ),
        (
            "reranker: {utilities: [abstention], training: {loss: udcg, relevance: gold, rescale: rank}}\n",
            r"loss 'udcg' reads utilities as such, found 'rank'",
        ),
        (
            "reranker: {utilities: [abstention], training: {loss: udcg, relevance: gold}, rivals: [gold]}\n",
            r"rivals: found gold, expected none with training.relevance",
        ),
        ("evaluation: {reranker_measures: [contains]}\n", r"reranker_measures: found 'contains'.*answer_k"),
        ("evaluation: {rewriter_measures: ['UDCG@5']}\n", r"rewriter_measures: found 'UDCG@5'.*udcg_k"),
        ("generator: packaged:nonsense\n", r"generator: unknown packaged model.*smollm2"),
        ("rewriter: {base: ./nowhere}\n", r"rewriter.base: model folder './nowhere' does not exist"),
        ("reranker: {utilities: ['nowhere.py:Own']}\n", r"there is no file nowhere.py"),
        ("reranker: {utilities: ['no_such_module.inner:Own']}\n", r"there is no module no_such_module"),
        ("reranker: {utilities: ['information-gain,prompt=no.yaml']}\n", r"no.yaml"),
    ],
)
def test_what_would_stop_the_run_hours_later_stops_it_now(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        Recipe.load(write(tmp_path, GOOD + text))
    assert "1 problem(s)" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reranker: {first_stage: [bm25, dense]}\n", r"first_stage: found 'dense', expected one of: bm25"),
        ("reranker: {first_stage: []}\n", r"first_stage: found an empty list"),
        ("reranker: {depth: 5, train_depth: 6}\n", r"train_depth: found 6, expected at most depth \(5\)"),
        ("reranker: {warm_up: {retriever: other, queries: 2}}\n", r"warm_up.retriever: found 'other', expected one of"),
        ("reranker: {rivals: [gold, gold]}\n", r"rivals: found gold, gold, expected each of them once"),
        ("reranker: {rivals: [entropy]}\n", r"reranker.rivals: .*'entropy'.*entropy-drop"),
        ("reranker: {rivals: ['grogu:mean-entropy', 'grogu:mean-entropy,prompt=answer']}\n", r"are both called"),
        ("reranker: {second_generator: packaged:nonsense}\n", r"reranker.second_generator: unknown packaged model"),
        ("evaluation: {theta_queries: 5, udcg_k: 0}\n", r"theta_queries: .* udcg_k is 0"),
        ("evaluation: {answer_k: []}\n", r"answer_k: found \[.*\], expected"),
        ("evaluation: {answer_k: [0, 3]}\n", r"answer_k: found \[.*\], expected"),
    ],
)
def test_what_the_reranker_s_comparison_lacks_is_named(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        Recipe.load(write(tmp_path, GOOD + text))


def test_one_or_several_passages_in_the_answering_prompt(tmp_path):
    path = write(tmp_path, GOOD)
    asked = {value: Recipe.load(path, [f"evaluation.answer_k={value}"]).evaluation for value in ("0", "3", "[1, 5, 1]")}
    assert {value: section.answer_ks for value, section in asked.items()} == {"0": [], "3": [3], "[1, 5, 1]": [1, 5]}


@pytest.mark.parametrize(("loss", "rule"), [("listwise-kl", "z-score"), ("bce", "min-max"), ("lambda", "min-max")])
def test_the_rescaling_suits_the_loss_unless_it_is_given(tmp_path, loss, rule):
    path = write(tmp_path, GOOD)
    assert Recipe.load(path, [f"reranker.training.loss={loss}"]).reranker.training.rule == rule
    given = [f"reranker.training.loss={loss}", "reranker.training.rescale=rank"]
    assert Recipe.load(path, given).reranker.training.rule == "rank"


@pytest.mark.parametrize(("utilities", "relevance"), [("[abstention]", "answer"), ("[abstention, erag]", "erag")])
def test_a_signed_utility(tmp_path, utilities, relevance):
    given = [
        f"reranker.utilities={utilities}",
        "reranker.training.loss=udcg",
        f"reranker.training.relevance={relevance}",
    ]
    section = Recipe.load(write(tmp_path, GOOD), given).reranker
    assert section.trained_utilities == ["abstention"] and section.training.rule == "none"


def test_sections_that_are_off_are_not_looked_at(tmp_path):
    text = GOOD + "rewriter: {enabled: false, base: ./nowhere}\nreranker: {enabled: false, utilities: [nonsense]}\n"
    Recipe.load(write(tmp_path, text))


def test_a_rewriter_base_without_chat_template_is_refused(tiny, recipe):
    settings = tiny / "writer" / "tokenizer_config.json"
    settings.write_text("{}")
    with pytest.raises(ConfigError, match=r"rewriter.base: .*no chat template"):
        recipe()
    settings.write_text('{"chat_template": "{{ messages }}"}')
    recipe()
    settings.write_text("{}")
    (settings.parent / "chat_template.jinja").write_text("{{ messages }}")
    recipe()


def test_loading_a_recipe_runs_no_code_that_it_names(tiny, recipe):
    assert recipe().reranker.utilities == [f"{tiny}/own.py:Own"]
    assert not (tiny / "imported").exists()


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        Recipe.load(tmp_path)
    (tmp_path / "u.yaml").write_bytes(b"\xff\xfen\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        Recipe.load(tmp_path / "u.yaml")
    with pytest.raises(ConfigError, match=r"--set name=\[: the value is not valid YAML"):
        Recipe.load(write(tmp_path, GOOD), ["name=["])


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("retrievers.bm25.kind=foo", "retrievers.bm25.kind: found 'foo', expected bm25 or dense"),
        ("retrievers.bm25={}", "retrievers.bm25.kind: missing; expected bm25 or dense"),
        ("retrievers.bm25.k=1", "retrievers.bm25.k: unknown key; did you mean 'k1'?"),
        ("retrievers.bm25.k1=-1", "retrievers.bm25.k1: Input should be greater than or equal to 0 (found -1)"),
        ("retrievers.other={kind: dense, encodr: x}", "retrievers.other.encodr: unknown key; did you mean 'encoder'?"),
    ],
)
def test_a_wrong_retriever_is_one_problem_in_the_recipe_s_words(tmp_path, override, line):
    with pytest.raises(ConfigError) as caught:
        Recipe.load(write(tmp_path, GOOD), [override])
    problems = str(caught.value).splitlines()[1:]
    assert problems == [f"  {line}"]
