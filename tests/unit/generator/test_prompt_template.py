"""Prompt files: what they declare is what they get."""

import pytest

from utilitune.errors import ConfigError
from utilitune.generator import load_prompt, packaged_prompts
from utilitune.generator.prompt_template import parse_prompt
from utilitune.records.passage import Passage
from utilitune.records.query import Turn

GOOD = """name: p
version: 1
placeholders: {required: [question], optional: [passages]}
messages:
  - {role: user, content: "{% for p in passages %}{{ p.text }} {% endfor %}{{ question }}"}
plain: "{{ question }}{% for p in passages %} {{ p.text }}{% endfor %}"
stop: []
max_new_tokens: 4
"""


def test_packaged_prompts_render():
    assert {"answer", "answer-abstain", "relevance", "rewrite"} <= set(packaged_prompts())
    passage, turn = Passage("1", "Ada Fenn is mayor.", "Velm"), Turn("user", "Where is Velm?")
    for name in ("answer", "answer-abstain"):
        prompt = load_prompt(name).render(question="Who?", passages=[passage], history=[turn])
        for text in (prompt.messages[-1][1], prompt.plain):
            assert text.index("Velm\nAda Fenn is mayor.") < text.index("Where is Velm?") < text.index("Who?")
        assert prompt.trim == ("Ada Fenn is mayor.",)
        assert prompt.plain.endswith("Question: Who?\nAnswer:")
    assert any("NO-RESPONSE" in content for _, content in prompt.messages) and "NO-RESPONSE" in prompt.plain


def test_answer_plain_form_is_exact():
    prompt = load_prompt("answer").render(question="Who?", passages=[Passage("1", "Ada.")])
    assert prompt.plain == "Document: Ada.\nQuestion: Who?\nAnswer:"
    assert load_prompt("answer").render(question="Who?").plain == "Question: Who?\nAnswer:"
    assert load_prompt("answer").stop == ("\n",)


def test_rewrite_shows_history_then_question_and_shortens_long_replies():
    history = [Turn("user", "Who?"), Turn("assistant", "word " * 100), Turn("user", "w " * 60)]
    prompt = load_prompt("rewrite").render(question="When?", history=history)
    last = prompt.messages[-1][1]
    assert last.count("word") == 15 and last.count("w ") >= 59
    assert last.index("Who?") < last.index("word") < last.index("When?")
    assert prompt.trim == ()
    assert load_prompt("rewrite").render(question="When?").messages[-1][1].strip().endswith("When?")


def test_text_of_users_is_never_a_template():
    prompt = load_prompt("answer").render(question="{{ 7 * 7 }}", passages=[Passage("1", "{% raise %}")])
    assert "{{ 7 * 7 }}" in prompt.plain and "{% raise %}" in prompt.plain


def test_hash_follows_the_text_not_its_line_ends():
    base = parse_prompt(GOOD, "x")
    assert parse_prompt("\ufeff" + GOOD.replace("\n", "\r\n"), "y").hash == base.hash
    assert parse_prompt(GOOD.replace("max_new_tokens: 4", "max_new_tokens: 5"), "z").hash != base.hash
    assert len({load_prompt(name).hash for name in packaged_prompts()}) == len(packaged_prompts())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("stop: []\n", ""), "missing key 'stop'"),
        (("version: 1", "version: 1\nextra: 2"), "unknown key 'extra'"),
        (("optional: [passages]", "optional: [passages, answer]"), "unknown placeholder 'answer'"),
        (("optional: [passages]", "optional: []"), "'passages' is used but not declared"),
        (("optional: [passages]", "optional: [passages, history]"), "'history' is declared but not used"),
        (("role: user", "role: robot"), "role 'robot'"),
        (('{{ question }}"}', '{{ question "}'), "template error"),
        (("max_new_tokens: 4", "max_new_tokens: 0"), "max_new_tokens"),
        (("stop: []", 'stop: [""]'), "non-empty strings"),
    ],
)
def test_bad_files_are_refused(change, message):
    assert change[0] in GOOD
    with pytest.raises(ConfigError, match=message):
        parse_prompt(GOOD.replace(*change), "file.yaml")


def test_unknown_and_missing_values():
    with pytest.raises(ConfigError, match="history is given but not declared"):
        parse_prompt(GOOD, "x").render(question="a", history=[Turn("user", "b")])
    with pytest.raises(ConfigError, match="question is required but empty"):
        parse_prompt(GOOD, "x").render(question="")
    with pytest.raises(ConfigError, match=r"known: \['answer'"):
        load_prompt("answr")
    with pytest.raises(ConfigError, match="does not exist"):
        load_prompt("nowhere.yaml")


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    assert load_prompt(path).render(question="Who?", passages=[Passage("1", "Ada")]).plain == "Who? Ada"


def test_templates_cannot_reach_the_interpreter():
    evil = GOOD.replace("{{ question }}{% for", "{{ question.__class__.__mro__ }}{% for")
    with pytest.raises(ConfigError, match="cannot be rendered"):
        parse_prompt(evil, "x").render(question="a")
