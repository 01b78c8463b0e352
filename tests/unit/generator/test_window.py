"""Long prompts: the passage is cut, nothing else ever is."""

import pytest

from utilitune.errors import ConfigError
from utilitune.generator import Prompt, PromptTooLong, Task, TransformersGenerator, load_prompt
from utilitune.generator.window import window_of
from utilitune.records.passage import Passage

POSITIONS = 64


def words(count):
    return " ".join(["mayor"] * count)


@pytest.fixture
def generator(tiny, tokenizers_of):
    def make(kind="gpt2", template=None, **more):
        return TransformersGenerator(tiny(kind, positions=POSITIONS), tokenizers_of(template), **more)

    return make


def prompt_of(text):
    return Prompt(plain=f"Document: {text}\nQuestion: who?\nAnswer:", trim=(text,))


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_passages_around_the_limit_in_one_batch(generator, kind):
    """B19: passages around the context window."""
    made = generator(kind)
    passages = [words(count) for count in (10, POSITIONS - 1, POSITIONS, POSITIONS + 1, 20_000)]
    results = made.run([Task(prompt_of(text), 4, (), (" Ada",)) for text in passages])
    assert [result.answer.truncated for result in results] == [False, True, True, True, True]
    assert [result.continuations[0].truncated for result in results] == [False, True, True, True, True]
    assert made.counts["truncated"] == 4
    # All the cut ones show the model the same text.
    assert results[1].answer == results[4].answer


def test_only_the_passage_is_cut_and_from_its_end(generator):
    made = generator()
    text = "the old stone bridge of Velm and the river Ull " * 20
    encoded = made._window.fit(prompt_of(text), 4)
    shown = made.tokenizer.decode(encoded.ids)
    assert encoded.truncated
    assert shown.endswith("\nQuestion: who?\nAnswer:")
    assert shown.startswith("Document: the old stone bridge")
    body = shown.removeprefix("Document: ").removesuffix("\nQuestion: who?\nAnswer:")
    assert text.startswith(body)
    kept = made.tokenizer(body)["input_ids"]
    assert made.tokenizer(text)["input_ids"][: len(kept)] == kept
    assert len(encoded.ids) + 8 <= POSITIONS


def test_cut_does_not_depend_on_a_short_or_longer_answer(generator):
    made = generator()
    ids = [made._window.fit(prompt_of(words(200)), room).ids for room in (1, 2, 8)]
    assert ids[0] == ids[1] == ids[2]


def test_a_long_answer_of_the_same_prompt_does_not_change_what_a_text_is_scored_after(generator):
    made = generator()
    prompt = prompt_of(words(200))
    alone = made.score([prompt], ["Ada"])[0]
    room = POSITIONS // 2
    both = made.run([Task(prompt, max_new_tokens=room, continuations=("Ada",))])[0]
    assert both.continuations[0] == alone
    assert both.answer == made.generate([prompt], max_new_tokens=room)[0][0]
    assert made._window.fit(prompt, room).ids != made._window.fit(prompt, 1).ids


def test_a_prompt_is_cut_once_for_each_room(generator, monkeypatch):
    made = generator()
    fit, rooms = made._window.fit, []
    monkeypatch.setattr(made._window, "fit", lambda prompt, room: rooms.append(room) or fit(prompt, room))
    texts = ("Ada", "Ada", "Fenn", " ".join(["Ada"] * 20))
    long, short = made.run([Task(prompt_of(words(200)), 8, (), texts), Task(prompt_of("Ada"), 8, (), texts)])
    assert [each.truncated for each in long.continuations] == [True] * 4
    assert not any(each.truncated for each in short.continuations)
    whole = rooms.pop()
    assert whole == max(rooms) and len(rooms) == len(set(rooms))


def test_nothing_asked_of_a_prompt_gives_nothing(generator):
    made = generator()
    for text in ("Ada", words(200)):
        result = made.run([Task(prompt_of(text), 0)])[0]
        assert result.answer is None and result.continuations == ()


def test_short_passages_stay_whole_beside_a_long_one(generator):
    made = generator()
    passages = (Passage("1", words(300)), Passage("2", "Ada Fenn of Velm"))
    prompt = load_prompt("answer").render(question="who?", passages=passages)
    shown = made.tokenizer.decode(made._window.fit(prompt, 4).ids)
    assert "Document: Ada Fenn of Velm\nQuestion: who?\nAnswer:" in shown


def test_chat_prompts_are_cut_inside_the_template(generator, templates):
    made = generator("llama", templates["no-system"])
    text = words(300)
    prompt = Prompt(messages=(("system", "S"), ("user", f"{text} who?")), trim=(text,))
    shown = made.tokenizer.decode(made._window.fit(prompt, 4).ids)
    assert shown.startswith("<s>user\nS\n\nmayor") and shown.endswith(" who?</s>\n<s>assistant\n")


def test_what_cannot_be_cut_is_refused_before_anything_runs(generator):
    """B19: template and question are never cut."""
    made = generator()
    long = Prompt(plain=words(100))
    with pytest.raises(PromptTooLong, match="nothing in this prompt may be cut"):
        made.run([Task(prompt_of("Ada"), 2), Task(long, 2)])
    no_room = Prompt(plain=f"Ada {words(100)}", trim=("Ada",))
    with pytest.raises(ValueError, match="without any passage"):
        made.generate([no_room], max_new_tokens=2)
    assert made.fits(prompt_of("Ada")) and made.fits(prompt_of(words(500))) and not made.fits(long)


def test_prompt_and_answer_may_fill_the_window(generator):
    made = generator()
    text = words(200)
    ids = made.tokenizer(text)["input_ids"]
    exact = made.tokenizer.decode(ids[: POSITIONS - 3])
    assert len(made.tokenizer(exact)["input_ids"]) == POSITIONS - 3
    assert len(made.generate([exact], max_new_tokens=3)[0][0].token_ids) >= 1
    with pytest.raises(PromptTooLong):
        made.generate([exact], max_new_tokens=4)


def test_policy_error(generator):
    made = generator(overflow="error")
    assert made.score([prompt_of("Ada")], [" x"])[0].truncated is False
    with pytest.raises(PromptTooLong, match="context window is 64"):
        made.score([prompt_of(words(90))], [" x"])


def test_window_is_the_smaller_limit(tiny, tokenizers_of):
    config = tiny("gpt2", positions=64).config
    assert window_of(config, tokenizers_of()) == 64
    assert window_of(config, tokenizers_of(limit=32)) == 32
    del config.n_positions
    config.attribute_map = {}
    with pytest.raises(ConfigError, match="states a context window"):
        window_of(type("Bare", (), {})(), tokenizers_of())
