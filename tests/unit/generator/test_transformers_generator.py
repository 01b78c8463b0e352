"""The backend against a plain float64 reference, and its invariants."""

import random

import pytest
import torch

from utilitune.errors import ConfigError
from utilitune.generator import Prompt, Task, TransformersGenerator
from utilitune.generator.reading import Reading

WORDS = [
    "the",
    "mayor",
    "of",
    "Velm",
    "is",
    "Ada",
    "Fenn",
    "and",
    "river",
    "Ull",
    "old stone",
    "bridge",
    "opera",
    "Karsk",
]


def texts(count, seed=0, longest=40):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(count)]


@pytest.fixture
def build(tiny, tokenizers_of):
    def make(kind="llama", template=None, batch_tokens=8192, bos=False, **more):
        return TransformersGenerator(tiny(kind), tokenizers_of(template, bos=bos), batch_tokens=batch_tokens, **more)

    return make


def test_scores_equal_float64_reference_in_mixed_batches(kind, build, reference):
    generator = build(kind)
    prompts = [*texts(10), texts(1, 5, 4)[0]]
    continuations = [" Ada", " the old stone bridge of Velm", "x", *texts(8, seed=3, longest=6)]
    got = generator.score(prompts, continuations)
    for prompt, text, result in zip(prompts, continuations, got, strict=True):
        prompt_ids = generator.tokenizer(prompt)["input_ids"]
        ids = generator.tokenizer(text)["input_ids"]
        assert result.token_ids == tuple(ids)
        logprobs, entropies = reference(generator.model, prompt_ids, ids)
        assert result.logprobs == pytest.approx(logprobs, abs=1e-4)
        assert result.entropies == pytest.approx(entropies, abs=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_moves_no_position(kind, side, build, reference):
    """B10: a short prompt beside a long one, whatever side the tokenizer pads on; learned positions show it first."""
    generator = build(kind)
    generator.tokenizer.padding_side = side
    prompts = ["the mayor of Velm", " ".join(texts(1, seed=3, longest=60) * 4), "who", "the mayor of Velm is"]
    together = generator.generate(prompts, max_new_tokens=3)
    for prompt, [answer] in zip(prompts, together, strict=True):
        [[alone]] = generator.generate([prompt], max_new_tokens=3)
        assert answer.token_ids == alone.token_ids
        assert answer.entropies == pytest.approx(alone.entropies, abs=1e-5)
        ids = generator.tokenizer(prompt)["input_ids"]
        assert answer.entropies == pytest.approx(reference(generator.model, ids, answer.token_ids)[1], abs=1e-4)


def test_greedy_equals_transformers_generate(kind, build):
    generator = build(kind)
    prompts = texts(6, seed=1)
    got = generator.generate(prompts, max_new_tokens=9)
    for prompt, [answer] in zip(prompts, got, strict=True):
        ids = torch.tensor([generator.tokenizer(prompt)["input_ids"]])
        whole = generator.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, do_sample=False)[
            0, ids.shape[1] :
        ].tolist()
        own = whole[:-1] if whole[-1] == 2 else whole
        assert answer.token_ids == tuple(own or whole[:1])
        assert answer.finish == ("stop" if whole[-1] == 2 else "length")


def test_greedy_numbers_equal_reference(kind, build, reference):
    generator = build(kind)
    prompts = texts(5, seed=2)
    for prompt, [answer] in zip(prompts, generator.generate(prompts, max_new_tokens=12), strict=True):
        prompt_ids = generator.tokenizer(prompt)["input_ids"]
        logprobs, entropies = reference(generator.model, prompt_ids, answer.token_ids)
        assert answer.logprobs == pytest.approx(logprobs, abs=1e-4)
        assert answer.entropies == pytest.approx(entropies, abs=1e-5)


def test_same_numbers_for_every_batch_size_and_order(kind, build):
    """B11: a score does not depend on batch mates."""
    tasks = [
        Task(Prompt(plain=text), 6, (".",), (" Ada Fenn", texts(1, number, 9)[0]))
        for number, text in enumerate(texts(12, seed=4))
    ]
    base = build(kind, batch_tokens=100_000).run(tasks)
    order = list(range(len(tasks)))
    random.Random(0).shuffle(order)
    for batch_tokens in (1, 200, 1000):
        shuffled = build(kind, batch_tokens=batch_tokens).run([tasks[place] for place in order])
        for place, result in zip(order, shuffled, strict=True):
            expected = base[place]
            assert result.answer.token_ids == expected.answer.token_ids
            pairs = [(result.answer, expected.answer), *zip(result.continuations, expected.continuations, strict=True)]
            for one, other in pairs:
                assert one.text == other.text
                assert one.logprobs == pytest.approx(other.logprobs, abs=5e-5)
                assert one.entropies == pytest.approx(other.entropies, abs=5e-5)


def test_equal_tasks_give_equal_bits_on_repeat(build):
    generator = build("gemma3")
    tasks = [Task(Prompt(plain=text), 5, (), (" Velm",)) for text in texts(7, seed=9)]
    assert generator.run(tasks) == generator.run(tasks)


def test_samples_do_not_depend_on_batch_mates(kind, build):
    prompts = texts(5, seed=6)
    together = build(kind).generate(prompts, n=4, temperature=0.9, top_p=0.95, max_new_tokens=8, seed=3)
    alone = [
        build(kind, batch_tokens=1).generate([p], n=4, temperature=0.9, top_p=0.95, max_new_tokens=8, seed=3)[0]
        for p in prompts
    ]
    assert [[s.token_ids for s in row] for row in together] == [[s.token_ids for s in row] for row in alone]
    assert len({s.token_ids for s in together[0]}) > 1
    fewer = build(kind).generate(prompts, n=2, temperature=0.9, top_p=0.95, max_new_tokens=8, seed=3)
    assert [row[:2] for row in together] == [row[:2] for row in fewer]
    other = build(kind).generate(prompts, n=4, temperature=0.9, top_p=0.95, max_new_tokens=8, seed=4)
    assert [[s.token_ids for s in row] for row in together] != [[s.token_ids for s in row] for row in other]


def test_sampled_numbers_are_of_temperature_one(build):
    generator = build("qwen2")
    prompt = texts(1, seed=8)[0]
    for temperature in (0.5, 2.0):
        for sample in generator.generate([prompt], n=3, temperature=temperature, top_p=0.8, max_new_tokens=6)[0]:
            [scored] = generator.score([prompt], [sample.token_ids])
            assert sample.logprobs == pytest.approx(scored.logprobs, abs=1e-5)
            assert sample.entropies == pytest.approx(scored.entropies, abs=1e-5)


def test_rescoring_own_answer_gives_its_numbers(kind, build):
    generator = build(kind)
    prompts = texts(6, seed=7)
    answers = [row[0] for row in generator.generate(prompts, max_new_tokens=7)]
    for answer, again in zip(answers, generator.score(prompts, [a.token_ids for a in answers]), strict=True):
        assert again.token_ids == answer.token_ids
        assert again.logprobs == pytest.approx(answer.logprobs, abs=1e-5)


def test_uniform_model_has_log_v_everywhere(build):
    generator = build("llama")
    with torch.no_grad():
        generator.model.lm_head.weight.zero_()
    [result] = generator.score(["the mayor"], [" of Velm"])
    ln_v = torch.log(torch.tensor(400.0)).item()
    assert result.entropies == pytest.approx([ln_v] * len(result.tokens), abs=1e-5)
    assert result.logprobs == pytest.approx([-ln_v] * len(result.tokens), abs=1e-5)


def test_end_token_alone_is_kept(build):
    generator = build("llama")
    answers = generator.generate(["the mayor of"], max_new_tokens=3)[0]
    generator._engine._decoder._ends = frozenset({answers[0].token_ids[0]})
    [ended] = generator.generate(["the mayor of"], max_new_tokens=3)[0]
    assert ended.text == ""
    assert ended.token_ids == answers[0].token_ids[:1]
    assert (len(ended.logprobs), len(ended.entropies), ended.finish) == (1, 1, "stop")


def test_equal_prompts_are_prefilled_once(build):
    generator = build("llama")
    generator.score(["a"], ["b"])
    seen = []
    generator.model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    prompt = "the mayor of Velm is Ada Fenn"
    length = len(generator.tokenizer(prompt)["input_ids"])
    generator.score([prompt] * 5, [" Ada", " the", " Ull", " Lio", " Ada"])
    assert seen[0] == (1, length)
    assert all(shape[1] < length for shape in seen[1:])


def test_refuses_what_has_no_meaning(build):
    generator = build("llama")
    with pytest.raises(ValueError, match="2 prompts but 1"):
        generator.score(["a", "b"], ["c"])
    with pytest.raises(ValueError, match="empty continuation"):
        generator.score(["a"], [""])
    with pytest.raises(ValueError, match="outside the vocabulary"):
        generator.score(["a"], [(400,)])
    with pytest.raises(ValueError, match="temperature 0"):
        generator.generate(["a"], n=2)
    with pytest.raises(ValueError, match="top_p"):
        generator.generate(["a"], temperature=1.0, top_p=0.0)
    with pytest.raises(ValueError, match="max_new_tokens"):
        generator.generate(["a"], max_new_tokens=0)
    with pytest.raises(ConfigError, match="overflow policy"):
        build("llama", overflow="maybe")


def test_no_tasks_no_results(build):
    generator = build("llama")
    assert generator.run([]) == []
    assert generator.generate([]) == []
    [result] = generator.run([Task(Prompt(plain="the mayor"))])
    assert (result.answer, result.continuations) == (None, ())


def test_out_of_memory_halves_the_batch(build, monkeypatch):
    generator = build("llama")
    prompts = texts(8, seed=11)
    expected = generator.generate(prompts, max_new_tokens=4)
    read = Reading.read

    def small(reading, batch):
        found = read(reading, batch)
        if len(batch) > 2:
            raise torch.OutOfMemoryError("out of memory")
        return found

    monkeypatch.setattr(Reading, "read", small)
    got = generator.generate(prompts, max_new_tokens=4)
    assert [row[0].token_ids for row in got] == [row[0].token_ids for row in expected]
    assert generator.counts["out_of_memory"] == 3


def test_recurrent_state_is_refused(tokenizers_of):
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=400, hidden_size=16, num_hidden_layers=1, state_size=4)
    tokenizer = tokenizers_of(limit=64)
    with pytest.raises(ConfigError, match="only attention caches"):
        TransformersGenerator(MambaForCausalLM(config), tokenizer).score(["a"], ["b"])


@pytest.mark.parametrize(
    ("kind", "plain"), [("llama", True), ("gpt2", True), ("gemma3", True), ("gemma3-capped", False)]
)
def test_capped_logits_are_noticed(kind, plain, build):
    assert build(kind)._engine._model.gives_states is plain


def test_bfloat16_differs_little_and_identity_says_so(tiny, tokenizers_of):
    """B11 in low precision."""
    generator = TransformersGenerator(tiny("llama").bfloat16(), tokenizers_of())
    full = TransformersGenerator(tiny("llama"), tokenizers_of())
    prompts = texts(6, seed=12)
    batch = generator.score(prompts, [" Ada Fenn"] * 6)
    for prompt, result in zip(prompts, batch, strict=True):
        alone = generator.score([prompt], [" Ada Fenn"])[0]
        # Stated tolerance: a few units of bfloat16 at logits of size ten.
        assert result.logprobs == pytest.approx(alone.logprobs, abs=0.25)
        assert result.logprobs == pytest.approx(full.score([prompt], [" Ada Fenn"])[0].logprobs, abs=0.5)
    assert generator.identity.dtype == "bfloat16"
    assert generator.identity.key() != full.identity.key()


def test_prompts_with_shared_parts_give_the_reference_numbers(kind, build, reference):
    generator = build(kind)
    opening = " ".join(texts(1, seed=5, longest=40) * 3)
    middles = [" ".join(texts(1, seed=number, longest=30) * 2) for number in (6, 7)]
    prompts = [f"{opening} {middles[number % 2]} {tail}" for number, tail in enumerate(texts(8, seed=1, longest=60))]
    prompts += [opening, f"{opening} {middles[0]}", "x"]
    answers = [f" {tail}" for tail in texts(len(prompts), seed=2, longest=12)]
    read = []
    inner = generator._engine._model.extend

    def spy(past, segments, keep):
        read.append(sum(map(len, segments)))
        return inner(past, segments, keep)

    generator._engine._model.extend = spy
    generator.run([Task(Prompt(plain=prompt), continuations=((5,),)) for prompt in prompts])
    encoded = [tuple(generator.tokenizer(prompt)["input_ids"]) for prompt in prompts]
    nodes = {ids[:length] for ids in encoded for length in range(1, len(ids) + 1)}
    # What is shared is read once, but for crumbs that are cheaper read again.
    assert len(nodes) <= sum(read) < len(nodes) + 32 * len(prompts) < sum(map(len, encoded))
    together = generator.score(prompts, answers)
    for prompt, answer, scored in zip(prompts, answers, together, strict=True):
        alone = generator.score([prompt], [answer])[0]
        assert scored.logprobs == pytest.approx(alone.logprobs, abs=1e-4)
        assert scored.entropies == pytest.approx(alone.entropies, abs=1e-4)
        prompt_ids = generator.tokenizer(prompt)["input_ids"]
        logprobs, entropies = reference(generator.model, prompt_ids, list(scored.token_ids))
        assert scored.logprobs == pytest.approx(logprobs, abs=1e-4)
        assert scored.entropies == pytest.approx(entropies, abs=1e-4)


@pytest.mark.parametrize("template", ["chatml", None])
def test_special_token_look_alikes_in_a_passage_stay_text(template, build, templates):
    generator = build("llama", template=templates[template] if template else None, bos=True)
    specials = set(generator.tokenizer.all_special_ids)

    def control_tokens(content):
        prompt = Prompt(messages=(("user", content),))
        return [token for token in generator._encode(prompt).ids if token in specials]

    eos = generator.tokenizer.eos_token
    assert eos in generator.tokenizer.all_special_tokens
    assert control_tokens(f"a passage {eos}{eos} that ends the turn") == control_tokens("a passage that ends the turn")
    prompts = [Prompt(messages=(("user", f"x {eos}"),)), Prompt(messages=(("user", "x"),))]
    generator.score(prompts, [" a", " a"])
    assert generator.counts["special_tokens_split"] == 1


def test_special_tokens_in_a_raw_text_prompt_are_the_callers(build):
    generator = build("llama")
    eos = generator.tokenizer.eos_token
    assert generator.tokenizer.eos_token_id in generator._encode(Prompt.of(f"a {eos} b")).ids
