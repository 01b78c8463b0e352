import subprocess
import sys
import textwrap

import pytest

from utilitune.errors import ConfigError
from utilitune.scoring import UTILITIES, make_utility

NEED_ANSWERS = {"erag", "sper", "answer-likelihood", "loop", "dig", "contrastive-ppl"}


@pytest.mark.parametrize("name", UTILITIES)
def test_every_name_makes_a_utility_of_that_name(name):
    utility = make_utility(name)
    assert utility.name == ("grogu:mean-entropy" if name == "grogu" else name)
    assert utility.needs_answers is (name in NEED_ANSWERS)
    assert utility.parameters["prompt_hash"]


def test_string_and_mapping_say_the_same():
    text, mapping = (
        make_utility("grogu:key-entropy, tau=0.5"),
        make_utility({"name": "grogu:key-entropy", "tau": 0.5}),
    )
    assert text.name == mapping.name == "grogu:key-entropy,tau=0.5"
    assert text.parameters == mapping.parameters
    assert make_utility("grogu:key-entropy,tau=1").name == "grogu:key-entropy", "the default is not spelled out"
    assert make_utility(text) is text


def test_unknown_names_and_parameters_list_the_known_ones():
    with pytest.raises(ConfigError, match="information-gain, entropy-drop, question-gain, joint-gain, abstention"):
        make_utility("informationgain")
    with pytest.raises(ConfigError, match="grogu:max-entropy"):
        make_utility("grogu:median-entropy")
    with pytest.raises(ConfigError, match=r"no parameter 'tau'; known: prompt, max_new_tokens"):
        make_utility("grogu:mean-entropy,tau=1")
    with pytest.raises(ConfigError, match="parameter=value"):
        make_utility("grogu:key-entropy,0.5")
    with pytest.raises(ConfigError, match="needs a 'name'"):
        make_utility({"tau": 0.5})
    with pytest.raises(ConfigError, match="cannot import"):
        make_utility("no_such_module_here:Thing")
    with pytest.raises(ConfigError, match="has no class"):
        make_utility("json:Thing")
    with pytest.raises(ConfigError, match="lacks name, needs_answers"):
        make_utility(object())
    with pytest.raises(ConfigError, match="unknown prompt"):
        make_utility("information-gain,prompt=nonsense")


OWN = textwrap.dedent(
    '''
    """How short the grounded answer is: a user's own utility."""
    from utilitune.generator import load_prompt
    from utilitune.scoring import Greedy, Value

    class Brevity:
        name = "brevity"
        needs_answers = False

        def __init__(self, scale=1.0):
            self.template = load_prompt("answer")
            self.parameters = {"scale": scale, "prompt_hash": self.template.hash}

        def requests(self, query, passages):
            prompt = self.template.render(question=query.text, passages=passages, history=query.history)
            return {"answer": Greedy(prompt, 4)}

        def value(self, query, passages, responses):
            tokens = responses["answer"].tokens
            return Value(-self.parameters["scale"] * len(tokens), {"answer": responses["answer"].text})
    '''
)


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    path = tmp_path / "brevity_of_a_user.py"
    path.write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    sys.modules.pop("brevity_of_a_user", None)


def test_a_users_own_utility_by_module_and_by_file(own_module):
    by_module = make_utility("brevity_of_a_user:Brevity,scale=2")
    by_file = make_utility(f"{own_module}:Brevity,scale=2")
    assert by_module.parameters == by_file.parameters
    assert by_module.parameters["scale"] == 2
    with pytest.raises(ConfigError, match="known: scale"):
        make_utility("brevity_of_a_user:Brevity,size=2")


def test_a_users_own_utility_is_labelled_with(own_module, world, counted):
    from utilitune.scoring import label

    labels = label(*world, ["brevity_of_a_user:Brevity,scale=2"], counted, k=2)
    assert len(labels) == 12
    assert all(row.utility == -2 * len(row.evidence["answer"]) or row.evidence["answer"] == "" for row in labels)
    assert {row.name for row in labels} == {"brevity"}


SCALED = """
from __future__ import annotations
from dataclasses import dataclass
from pathlib import Path

Path("times-imported").open("a").write("x")


@dataclass(frozen=True)
class Scaled:
    scale: float
    name: str = "scaled"
    needs_answers: bool = False

    @property
    def parameters(self):
        return {"scale": self.scale}

    def requests(self, query, passages):
        return {}

    def value(self, query, passages, responses):
        raise ValueError("no number")


class Odd(Scaled):
    parameters = {"of": {1, 2}}
"""


def test_a_utility_in_a_file_may_be_a_dataclass_with_a_required_parameter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text(SCALED)  # the name of a module that is loaded already
    assert make_utility("json.py:Scaled,scale=2").parameters == {"scale": 2}
    assert sys.modules["json"].__name__ == "json" and hasattr(sys.modules["json"], "dumps")
    with pytest.raises(ConfigError, match=r"needs the parameter 'scale': give json\.py:Scaled,scale=…"):
        make_utility("json.py:Scaled")
    with pytest.raises(ConfigError, match="text without '@'"):
        make_utility("json.py:Scaled,scale=1,name=a@b")
    with pytest.raises(ConfigError, match="cannot be hashed into a label set"):
        make_utility("json.py:Odd,scale=1")


@pytest.mark.parametrize(
    ("text", "message"), [("class Own(:", "SyntaxError"), ("import no_such_thing", "ModuleNotFound"), ("1 / 0", "Zero")]
)
def test_a_file_that_cannot_be_imported(text, message, tmp_path):
    (tmp_path / "own.py").write_text(text)
    before = set(sys.modules)
    with pytest.raises(ConfigError, match=f"cannot import .*own.py.*{message}"):
        make_utility(f"{tmp_path}/own.py:Own")
    assert not {name for name in set(sys.modules) - before if name.startswith("utilitune_user")}


def test_naming_a_utility_and_labelling_need_no_torch():
    code = (
        "import sys; from utilitune.scoring import label, label_sets, make_utility; "
        "make_utility('grogu:key-entropy,tau=0.5'); sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
