"""Chat templates: none, no system role, strict alternation, one beginning-of-sequence token."""

import pytest

from utilitune.errors import ConfigError
from utilitune.generator import Prompt, TransformersGenerator
from utilitune.generator.rendering import Renderer

PROMPT = Prompt(messages=(("system", "Be brief."), ("user", "Who?")), plain="Question: Who?\nAnswer:")


def test_system_role_native(tokenizers_of, templates):
    renderer = Renderer(tokenizers_of(templates["chatml"]))
    assert renderer.system_role == "native"
    assert renderer.render(PROMPT) == ("<s>system\nBe brief.</s>\n<s>user\nWho?</s>\n<s>assistant\n", True)


@pytest.mark.parametrize("template", ["no-system", "drops-system"])
def test_system_merged_into_first_user_turn(tokenizers_of, templates, template):
    """B14: no system role."""
    renderer = Renderer(tokenizers_of(templates[template]))
    assert renderer.system_role == "merged"
    assert renderer.render(PROMPT)[0] == "<s>user\nBe brief.\n\nWho?</s>\n<s>assistant\n"


def test_strict_alternation_is_met(tokenizers_of, templates):
    """B14: roles must alternate."""
    renderer = Renderer(tokenizers_of(templates["no-system"]))
    messages = (("system", "S"), ("user", "a"), ("user", "b"), ("assistant", "c"), ("user", "d"))
    text, _ = renderer.render(Prompt(messages=messages))
    assert text == "<s>user\nS\n\na\n\nb</s>\n<s>assistant\nc</s>\n<s>user\nd</s>\n<s>assistant\n"
    text, _ = renderer.render(Prompt(messages=(("assistant", "hello"), ("user", "b"))))
    assert text == "<s>user\nhello\n\nb</s>\n<s>assistant\n"
    with pytest.raises(ValueError, match="end with a user"):
        renderer.render(Prompt(messages=(("user", "a"), ("assistant", "b"))))


def test_no_template_uses_plain_with_one_notice(tokenizers_of, capsys):
    """B13: a tokenizer without a chat template."""
    renderer = Renderer(tokenizers_of(), model="tiny")
    assert renderer.render(PROMPT) == ("Question: Who?\nAnswer:", False)
    assert renderer.render(Prompt(messages=PROMPT.messages)) == ("Be brief.\n\nWho?", False)
    assert renderer.template_hash == "plain"
    assert capsys.readouterr().err.count("no chat template") == 1


def test_require_and_file(tokenizers_of, templates, tmp_path):
    with pytest.raises(ConfigError, match="require"):
        Renderer(tokenizers_of(), "require")
    path = tmp_path / "t.jinja"
    path.write_text(templates["chatml"])
    renderer = Renderer(tokenizers_of(), str(path))
    assert renderer.render(PROMPT)[0].startswith("<s>system\nBe brief.")
    with pytest.raises(ConfigError, match="is no file"):
        Renderer(tokenizers_of(), "nowhere.jinja")
    path.write_text("nothing of the user")
    with pytest.raises(ConfigError, match="drops the user message"):
        Renderer(tokenizers_of(), str(path))


def test_plain_string_never_meets_the_template(tokenizers_of, templates):
    assert Renderer(tokenizers_of(templates["chatml"])).render(Prompt(plain="as is")) == ("as is", False)


@pytest.mark.parametrize("bos", [True, False])
def test_exactly_one_beginning_token(tiny, tokenizers_of, templates, bos):
    chat = TransformersGenerator(tiny("llama"), tokenizers_of("<s>" + templates["chatml"].replace("<s>", ""), bos=bos))
    ids = chat._encode(PROMPT).ids
    assert (ids[0], ids.count(1)) == (1, 1)
    plain = TransformersGenerator(tiny("llama"), tokenizers_of(bos=bos))
    for text in ("the mayor", "<s>the mayor"):
        ids = plain._encode(Prompt(plain=text)).ids
        assert ids.count(1) == (1 if bos or text.startswith("<s>") else 0)
    assert plain._encode(Prompt(plain="")).ids == (1,)
    scored = plain.score(["the mayor"], [" of"])[0]
    assert 1 not in scored.token_ids


def test_identity_names_template_and_role(tiny, tokenizers_of, templates):
    made = [
        TransformersGenerator(tiny("llama"), tokenizers_of(template)).identity
        for template in (None, templates["chatml"], templates["no-system"])
    ]
    assert len({identity.key() for identity in made}) == 3
    assert [identity.system_role for identity in made] == ["native", "native", "merged"]
