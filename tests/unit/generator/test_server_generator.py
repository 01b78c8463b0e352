"""The generator on a server against the same tiny model in this process, whatever the server's kind."""

import json
from math import log

import pytest
from fake_server import FakeServer, Served

from utilitune.errors import ConfigError
from utilitune.generator import Generator, Prompt, load_generator
from utilitune.generator.protocol import Task
from utilitune.generator.server_error import ServerUnusable
from utilitune.generator.transformers_generator import TransformersGenerator

PROMPTS = ["the mayor of Velm", "Question: who wrote the opera?\nAnswer: ", "Document: Karsk"]
TEXTS = [" is Ada Fenn", "Lio Merrin", " is a town"]


@pytest.fixture
def world(tiny, tokenizers_of, tmp_path, templates):
    """A model, its tokenizer's folder, and ``load(mode, **spec)`` of a generator on a server of that kind."""
    # The greedy word of this seed at the probe is a whole letter.
    model, tokenizer = tiny("llama", seed=4), tokenizers_of(templates["chatml"])
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    servers = []

    class World:
        here = TransformersGenerator(model, tokenizer)

        @staticmethod
        def load(mode, tokens=True, **spec):
            servers.append(FakeServer(Served(model, tokenizer, mode)))
            World.server = servers[-1]
            given = {"backend": "openai", "model": "tiny", "base_url": servers[-1].url, "backoff": 0.01, **spec}
            return load_generator({"tokenizer": tmp_path / "tokenizer", **given} if tokens else given)

    yield World
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("mode", "way"),
    [("vllm", "prompt-logprobs"), ("echo", "echo"), ("echo-1", "echo-1"), ("llama.cpp", "token-grammar")],
)
def test_every_way_gives_the_numbers_of_the_model_in_this_process(world, mode, way):
    there = world.load(mode)
    assert isinstance(there, Generator)
    assert there.identity.options["scoring"] == way
    messages = Prompt(messages=(("system", "Be brief."), ("user", "who wrote the opera?")), plain="x")
    prompts, texts = [*PROMPTS, messages], [*TEXTS, "Lio"]
    for ours, theirs in zip(there.score(prompts, texts), world.here.score(prompts, texts), strict=True):
        assert ours.tokens == theirs.tokens
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
        assert ours.entropies is None
        for (lower, upper), exact, mass in zip(ours.entropy_bounds, theirs.entropies, ours.covered_mass, strict=True):
            assert lower <= exact <= upper <= log(400) + 1e-6
            assert 0 < mass < 1


@pytest.mark.parametrize("mode", ["vllm", "echo", "llama.cpp"])
def test_greedy_answers_are_those_of_the_model_in_this_process(world, mode):
    there = world.load(mode)
    for stop in ((), ("e",)):
        ours = there.generate(PROMPTS, max_new_tokens=12, stop=stop)
        theirs = world.here.generate(PROMPTS, max_new_tokens=12, stop=stop)
        for (one,), (other,) in zip(ours, theirs, strict=True):
            assert (one.text, one.finish) == (other.text, other.finish)
            assert len(one.logprobs) == len(other.logprobs)
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
            assert one.token_ids in ((), other.token_ids)
    if mode != "echo":
        assert there.counts["answers_without_ids"] == 0


def test_run_gives_answers_and_scores_in_order(world):
    there = world.load("vllm")
    tasks = [Task(Prompt.of(prompt), 4, (), tuple(TEXTS[:place])) for place, prompt in enumerate(PROMPTS)]
    ours, theirs = there.run(tasks), world.here.run(tasks)
    assert [each.answer.text for each in ours] == [each.answer.text for each in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert [each.text for each in one.continuations] == [each.text for each in other.continuations]
        for mine, exact in zip(one.continuations, other.continuations, strict=True):
            assert mine.logprobs == pytest.approx(exact.logprobs, abs=1e-4)


def test_ids_of_an_answer_can_be_scored_under_another_prompt(world):
    there = world.load("llama.cpp")
    answer = there.generate(PROMPTS[:1], max_new_tokens=5)[0][0]
    assert there.score(PROMPTS[1:2], [answer.token_ids])[0].logprobs == pytest.approx(
        world.here.score(PROMPTS[1:2], [answer.token_ids])[0].logprobs, abs=1e-4
    )


@pytest.mark.parametrize("mode", ["null", "one-entry"])
def test_a_server_that_cannot_score_is_refused_by_name_of_what_is_missing(world, mode):
    there = world.load(mode)
    before = len(world.server.requests)
    with pytest.raises(ConfigError, match=r"cannot score given texts .*echo: .*vLLM.*llama\.cpp"):
        there.score(PROMPTS, TEXTS)
    assert len(world.server.requests) == before
    assert there.identity.options["scoring"] == "none"


def test_null_logprobs_are_no_zeros(world):
    answers = world.load("null").generate(PROMPTS, max_new_tokens=3)
    assert all(each[0].logprobs == () and each[0].text for each in answers)


def test_empty_top_logprobs_give_scores_without_bounds(world):
    there = world.load("empty-top")
    scored = there.score(PROMPTS, TEXTS)
    exact = world.here.score(PROMPTS, TEXTS)
    for ours, theirs in zip(scored, exact, strict=True):
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
        assert ours.entropies is ours.entropy_bounds is ours.covered_mass is None


def test_logprobs_after_temperature_are_found_out_and_not_used(world):
    there = world.load("after-temperature")
    assert "none" in there.identity.options["logprobs"]
    sampled = there.generate(PROMPTS, max_new_tokens=3, temperature=0.5, seed=1)
    assert all(each[0].logprobs == () for each in sampled)
    # Scoring asks for temperature 1, where they are what they should be.
    assert there.score(PROMPTS, TEXTS)[0].logprobs == pytest.approx(
        world.here.score(PROMPTS, TEXTS)[0].logprobs, abs=1e-4
    )


def test_scoring_requests_are_at_temperature_1_without_penalties(world):
    for mode in ("vllm", "echo", "llama.cpp"):
        there = world.load(mode)
        before = len(world.server.requests)
        there.score(PROMPTS, TEXTS)
        for _, body in world.server.requests[before:]:
            assert (body["temperature"], body["top_p"]) == (1, 1)
            assert body["presence_penalty"] == body["frequency_penalty"] == 0


def test_samplers_that_servers_fill_in_by_themselves_are_switched_off_where_they_can_be(world):
    for mode, sent in (("vllm", True), ("echo", False)):
        there = world.load(mode)
        there.generate(PROMPTS[:1], max_new_tokens=2)
        body = world.server.requests[-1][1]
        assert ((body.get("top_k"), body.get("min_p"), body.get("repetition_penalty")) == (-1, 0, 1)) is sent
        assert there.identity.options["samplers"] == ("neutral" if sent else "the server's defaults")


def test_samples_have_seeds_of_their_own_and_come_back_alike(world):
    there = world.load("vllm")
    first = there.generate(PROMPTS, max_new_tokens=6, n=3, temperature=1.0, seed=5)
    again = there.generate(PROMPTS[::-1], max_new_tokens=6, n=3, temperature=1.0, seed=5)
    assert [[each.text for each in row] for row in first] == [[each.text for each in row] for row in again[::-1]]
    assert len({each.token_ids for row in first for each in row}) > 5
    assert all(len(row) == 3 for row in first)


def test_another_tokenizer_than_the_servers_is_refused(world, tokenizers_of, tmp_path):
    """Same words, other ids: every request would be valid, and every number wrong."""
    tokenizers_of().save_pretrained(tmp_path / "other")
    path = tmp_path / "other" / "tokenizer.json"
    saved = json.loads(path.read_text())
    words = saved["model"]["vocab"]
    saved["model"]["vocab"] = {word: place if place < 3 else len(words) + 2 - place for word, place in words.items()}
    path.write_text(json.dumps(saved))
    with pytest.raises(ConfigError, match="the tokenizer is not that of tiny"):
        world.load("vllm", tokenizer=tmp_path / "other")


def test_over_long_passages_are_cut_and_counted_and_prompts_refused(world):
    there = world.load("vllm", max_length=64)
    passage = "the river Ull runs past the old stone bridge " * 20
    prompt = Prompt(plain=f"Document: {passage}\nQuestion: where is it?\nAnswer:", trim=(passage,))
    assert there.score([prompt], [" Velm"])[0].truncated
    assert there.counts["truncated"] == 1
    assert max(len(body["prompt"]) for _, body in world.server.requests if "prompt" in body) <= 64
    with pytest.raises(ValueError, match="context window is 64"):
        there.score([Prompt(plain=passage)], [" Velm"])
    assert not there.fits(Prompt(plain=passage)) and there.fits("short")


def test_a_long_answer_of_the_same_prompt_does_not_change_what_a_text_is_scored_after(world):
    there = world.load("vllm", max_length=64)
    passage = "the river Ull runs past the old stone bridge " * 20
    prompt = Prompt(plain=f"Document: {passage}\nQuestion: where is it?\nAnswer:", trim=(passage,))
    alone, written = there.score([prompt], [" Velm"])[0], there.generate([prompt], max_new_tokens=24)[0][0]
    both = there.run([Task(prompt, max_new_tokens=24, continuations=(" Velm",))])[0]
    assert both.continuations[0] == alone
    assert both.answer == written
    # The prompt that a text follows is longer than the one that leaves room for an answer.
    scored, answered = (len(body["prompt"]) for _, body in world.server.requests[-4:-2])
    assert scored > answered + len(alone.token_ids)


class TestWithoutTokenizer:
    def test_plain_prompts_are_scored_by_echo(self, world):
        there = world.load("echo", tokens=False, template="plain")
        for ours, theirs in zip(there.score(PROMPTS, TEXTS), world.here.score(PROMPTS, TEXTS), strict=True):
            assert "".join(ours.tokens).strip() == ours.text.strip()
            if len(ours.tokens) == len(theirs.tokens):
                assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
            assert ours.token_ids == () and ours.entropy_bounds is None and ours.covered_mass is not None

    def test_a_token_across_the_seam_is_an_error_row_that_names_the_way_out(self, world):
        """The tokenizer knows ``Answer`` as one token: ``Ans`` + ``wer`` leaves none of the answer's own."""
        there = world.load("echo", tokens=False, template="plain")
        assert len(world.here.tokenizer("Answer", add_special_tokens=False)["input_ids"]) == 1
        with pytest.raises(ValueError, match=r"one token holds the end of the prompt.*tokenizer=FOLDER"):
            there.score(["Question: Ans"], ["wer"])
        # With the tokenizer the answer is encoded alone, as with a model in this process.
        known = world.load("echo").score(["Question: Ans"], ["wer"])[0]
        assert known.logprobs == pytest.approx(world.here.score(["Question: Ans"], ["wer"])[0].logprobs, abs=1e-4)

    def test_chat_prompts_are_answered_but_not_scored(self, world):
        there = world.load("vllm", tokens=False)
        prompt = Prompt(messages=(("system", "Be brief."), ("user", "who?")), plain="who?")
        assert there.identity.system_role == "merged"  # this server's template refuses system messages
        assert there.generate([prompt], max_new_tokens=3)[0][0].logprobs
        assert there.counts["merged_system"] == 1
        with pytest.raises(ConfigError, match=r"tokenizer=FOLDER .*template='plain'"):
            there.score([prompt], ["x"])

    def test_thinking_is_off_where_the_server_takes_the_variable(self, world):
        prompt = Prompt(messages=(("user", "who?"),))
        for mode, sent in (("vllm", True), ("echo", False)):
            there = world.load(mode, tokens=False)
            assert there.generate([prompt], max_new_tokens=2)[0][0].text
            body = world.server.requests[-1][1]
            assert (body.get("chat_template_kwargs") or {}).get("enable_thinking", True) is not sent
            assert ("template_variables" in there.identity.options) is sent

    def test_ids_mean_nothing(self, world):
        with pytest.raises(ConfigError, match="tokenizer=FOLDER"):
            world.load("echo", tokens=False, template="plain").score(["x"], [(1, 2)])


def test_a_generator_from_a_file(world, tmp_path, monkeypatch):
    there = world.load("vllm")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.yaml").write_text(
        f"backend: openai\nmodel: tiny\nbase_url: {world.server.url}\ntokenizer: tokenizer\n"
    )
    again = load_generator("server.yaml", batch_tokens=7)
    assert again.score(PROMPTS, TEXTS) == there.score(PROMPTS, TEXTS)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"base_url": ""}, "no key 'base_url'"),
        ({"batch_tokens": 4}, "unknown key 'batch_tokens'.*known: .*concurrency"),
        ({"concurrency": 0, "timeout": -1}, "concurrency is 0.*timeout is -1"),
        ({"template": "require"}, "needs the served model's tokenizer"),
        ({"overflow": "wrap", "tokenizer": "tokenizer"}, "unknown overflow policy"),
        ({"tokenizer": "./nothing-here"}, "cannot load the tokenizer"),
    ],
)
def test_settings_that_do_not_work_are_named(world, tmp_path, monkeypatch, wrong, match):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=match):
        world.load("vllm", tokens=False, **wrong)


def test_no_server(world):
    with pytest.raises(ServerUnusable, match=r"did not answer.*base_url"):
        load_generator({"backend": "openai", "model": "x", "base_url": "http://127.0.0.1:9/v1", "attempts": 1})


def test_identity_tells_servers_models_and_forms_apart(world):
    one = world.load("vllm").identity
    assert (one.backend, one.model, one.revision) == ("openai", "tiny", "fp1")
    assert one.options["base_url"] == world.server.url and one.options["served_model"] == "tiny"
    assert "temperature 1, no penalties" in one.options["logprobs"]
    others = [
        world.load("vllm", tokens=False),
        world.load("vllm", template="plain"),
        world.load("vllm", top_logprobs=3),
    ]
    keys = {one.key(), *(each.identity.key() for each in others)}
    assert len(keys) == 4


def test_wrong_input_is_refused_as_everywhere(world):
    there = world.load("vllm")
    with pytest.raises(ValueError, match="empty continuation"):
        there.score(["x"], [""])
    with pytest.raises(ValueError, match="2 prompts but 1 continuations"):
        there.score(["x", "y"], ["z"])
    with pytest.raises(ValueError, match="temperature 0"):
        there.generate(["x"], n=2)
