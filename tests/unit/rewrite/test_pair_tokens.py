import copy

import pytest

from utilitune.generator import load_prompt
from utilitune.generator.rendering import Renderer
from utilitune.records import PreferencePair, Turn
from utilitune.rewrite.sample import messages
from utilitune.rewrite.tokens import takes_system, tokenize_pair

REFUSES = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "<s> {{ m['role'] }} {{ m['content'] }} </s>{% endfor %}{% if add_generation_prompt %}<s> assistant {% endif %}"
)


def make_pair(prompt):
    return PreferencePair(
        "q",
        messages(prompt),
        ({"role": "assistant", "content": "when did mira die"},),
        ({"role": "assistant", "content": "when did she die"},),
        1.0,
        0.0,
    )


@pytest.mark.parametrize("system", [True, False])
def test_training_sees_the_prompt_that_the_generator_sees(tiny_tokenizer, system):
    tokenizer = tiny_tokenizer if system else copy.deepcopy(tiny_tokenizer)
    if not system:
        tokenizer.chat_template = REFUSES
    assert takes_system(tokenizer) is system
    prompt = load_prompt("rewrite").render(question="when did she die", history=[Turn("user", "who is mira tolve")])
    text, chat = Renderer(tokenizer).render(prompt)
    assert chat
    tokens = tokenize_pair(make_pair(prompt), tokenizer, system=system)
    assert list(tokens.prompt) == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(tokens.chosen) == "when did mira die </s>"
    assert tokenizer.decode(tokens.rejected) == "when did she die </s>"


def test_training_tokens_are_those_that_were_screened(tiny_base, tiny_tokenizer, tmp_path):
    from utilitune.rewrite import DpoConfig
    from utilitune.rewrite.dpo import _trainer
    from utilitune.rewrite.tokens import fit_roles, template_options

    pair = make_pair(load_prompt("rewrite").render(question="when did she die", history=[Turn("user", "who is mira")]))
    row = {
        "prompt": fit_roles(pair.prompt, True),
        "chosen": list(pair.chosen),
        "rejected": list(pair.rejected),
        "chat_template_kwargs": template_options(),
        "pair_index": 0,
    }
    trainer = _trainer([row], ["q"], str(tiny_base), tiny_tokenizer, tmp_path, DpoConfig(max_length=256))
    tokens = tokenize_pair(pair, tiny_tokenizer)
    (seen,) = trainer.train_dataset
    assert (seen["prompt_ids"], seen["chosen_ids"], seen["rejected_ids"]) == tuple(
        map(list, (tokens.prompt, tokens.chosen, tokens.rejected))
    )


def test_a_changed_template_changes_the_training_tokens(tiny_base, tiny_tokenizer, tmp_path):
    from utilitune.rewrite import DpoConfig
    from utilitune.rewrite.dpo import _trainer

    row = {
        "prompt": [{"role": "user", "content": "who is mira"}],
        "chosen": [{"role": "assistant", "content": "one"}],
        "rejected": [{"role": "assistant", "content": "two"}],
        "pair_index": 0,
    }
    other = copy.deepcopy(tiny_tokenizer)
    other.chat_template = tiny_tokenizer.chat_template.replace("<s>", "<s> long")
    seen = [
        _trainer([row], ["q"], str(tiny_base), tokenizer, tmp_path, DpoConfig()).train_dataset[0]["prompt_ids"]
        for tokenizer in (tiny_tokenizer, other)
    ]
    assert len(seen[1]) == len(seen[0]) + 2
