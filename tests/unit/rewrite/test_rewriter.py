import json
import shutil

import pytest

from utilitune.errors import ConfigError, DataError
from utilitune.generator import load_generator
from utilitune.generator.protocol import Generation, GeneratorIdentity, TaskResult
from utilitune.records import PreferencePair, Query, Turn
from utilitune.rewrite import DpoConfig, Rewriter, rewrite_queries, sample_candidates, train_dpo

HISTORY = (Turn("user", "who is mira tolve"), Turn("assistant", "mira tolve did the glass works"))


class Scripted:
    """A generator that writes what it is told, and remembers what it was asked."""

    identity = GeneratorIdentity("scripted", "0", "scripted", "float64")

    def __init__(self, greedy, samples=(), cut=()):
        self.greedy, self.samples, self.cut, self.calls = greedy, list(samples), cut, []

    def answer(self, text):
        return Generation(text, ("x",), (1,), (-1.0,), None, finish="length" if text in self.cut else "stop")

    def generate(self, prompts, *, max_new_tokens=16, n=1, temperature=0.0, top_p=1.0, stop=(), seed=0):
        asked = {"n": n, "temperature": temperature, "top_p": top_p, "seed": seed, "max_new_tokens": max_new_tokens}
        self.calls.append({"prompts": list(prompts), **asked})
        texts = [self.greedy] if temperature == 0 else self.samples[:n]
        return [[self.answer(text) for text in texts] for _ in prompts]

    def run(self, tasks):
        self.calls.append({"prompts": [task.prompt for task in tasks], "temperature": 0})
        return [TaskResult(self.answer(self.greedy), ()) for _ in tasks]


def query(identity="c_2", text="when did she die", history=HISTORY):
    return Query(identity, text, history, answers=("1900",))


@pytest.fixture(scope="module")
def adapter(tmp_path_factory, tiny_base):
    out = tmp_path_factory.mktemp("trained") / "rewriter"
    pairs = [
        PreferencePair(
            f"q{n}",
            ({"role": "user", "content": f"last question {n}"},),
            ({"role": "assistant", "content": "what did mira found"},),
            ({"role": "assistant", "content": "what did she found"},),
            1.0,
            0.0,
        )
        for n in ("one", "two")
    ]
    config = DpoConfig(max_steps=3, lr=5e-2, lora_r=4, batch_size=2, save_every=0, max_new_tokens=7)
    train_dpo(pairs, str(tiny_base), out, config)
    return out


def test_rewrites_with_the_history_and_cleans():
    generator = Scripted('Rewritten question: "When did Mira Tolve die?"')
    rewriter = Rewriter(generator)
    history = [{"role": "user", "content": "who is mira tolve"}, Turn("assistant", "a founder")]
    assert rewriter.rewrite(history, "when did she die") == "When did Mira Tolve die?"
    asked = generator.calls[0]["prompts"][0].messages[-1][1]
    assert "who is mira tolve" in asked and "a founder" in asked and "when did she die" in asked
    assert rewriter.counts == {"rewritten": 1, "fallback": 0, "stand-alone": 0, "cut": 0}


@pytest.mark.parametrize("written", ["", "```\n```", "la " * 40, "x" * 400])
def test_a_bad_generation_falls_back_to_the_question_and_counts(written):
    rewriter = Rewriter(Scripted(written))
    (rewrite,) = rewriter.rewrite_batch([query(text="when  did she\ndie")])
    assert (rewrite.query_id, rewrite.text, rewrite.fallback) == ("c_2", "when did she die", True)
    assert rewriter.counts["fallback"] == 1


def test_a_rewrite_cut_at_the_limit_is_used_and_counted():
    rewriter = Rewriter(Scripted("when did mira tolve of the", cut=("when did mira tolve of the",)))
    rewrites = rewriter.rewrite_batch([query(), query(history=())])
    assert [(rewrite.text, rewrite.cut) for rewrite in rewrites] == [
        ("when did mira tolve of the", True),
        ("when did she die", False),
    ]
    assert rewriter.counts == {"rewritten": 1, "fallback": 0, "stand-alone": 1, "cut": 1}


def test_questions_without_history_are_not_touched():
    generator = Scripted("something else")
    rewriter = Rewriter(generator)
    rewrites = rewriter.rewrite_batch([query(history=()), query("c_3"), query(history=())])
    assert [rewrite.text for rewrite in rewrites] == ["when did she die", "something else", "when did she die"]
    assert sum(len(call["prompts"]) for call in generator.calls) == 1
    assert rewriter.counts == {"rewritten": 1, "fallback": 0, "stand-alone": 2, "cut": 0}


def test_queries_for_the_retriever_keep_all_but_text_and_history():
    (ready,) = rewrite_queries(Rewriter(Scripted("mira tolve death")), [query()])
    assert ready == Query("c_2", "mira tolve death", (), ("1900",))
    assert ready.metadata["conversation"] == "c", "nothing else tells of it any more"


@pytest.mark.parametrize("turn", [{"role": "user"}, {"role": "tool", "content": "x"}])
def test_a_turn_that_is_none_is_refused(turn):
    with pytest.raises(DataError, match=r"turn|role"):
        Rewriter(Scripted("x")).rewrite([turn], "y")


def test_the_trained_folder_loads_and_differs_from_the_base(adapter, tiny_base):
    tuned = Rewriter.load(adapter)
    assert tuned.max_new_tokens == 7
    untuned = Rewriter.load(str(tiny_base), max_new_tokens=9)
    assert untuned.max_new_tokens == 9
    prompt = tuned.template.render(question="when did she die", history=HISTORY)
    one, two = (r.generator.score([prompt], ["what did mira found"])[0].logprobs for r in (tuned, untuned))
    assert one != pytest.approx(two, abs=1e-3)
    assert isinstance(tuned.rewrite(HISTORY, "when did she die"), str)


def test_the_folder_moves_with_base_given(adapter, tiny_base, tmp_path):
    moved = tmp_path / "elsewhere" / "rewriter"
    shutil.copytree(adapter, moved)
    with pytest.raises(ConfigError, match=r"tiny-llama.*base=") as caught:
        Rewriter.load(moved)
    assert str(moved) in str(caught.value)
    loaded = Rewriter.load(moved, base=str(tiny_base))
    assert loaded.rewrite(HISTORY, "when did she die") == Rewriter.load(adapter).rewrite(HISTORY, "when did she die")


def test_adapter_and_base_that_move_together_need_nothing(adapter, tiny_base, tmp_path):
    reference = json.loads((adapter / "rewriter.json").read_text())["base"]
    folder = tmp_path / "a" / "b" / "rewriter"
    shutil.copytree(adapter, folder)
    shutil.copytree(tiny_base, (folder / reference).resolve())
    assert Rewriter.load(folder).rewrite(HISTORY, "when did she die")


def test_base_for_something_that_is_no_adapter(tiny_base):
    with pytest.raises(ConfigError, match="holds none"):
        Rewriter.load(str(tiny_base), base="packaged:smollm2-135m-instruct")


def test_a_damaged_folder_says_so(adapter, tmp_path):
    shutil.copytree(adapter, tmp_path / "broken")
    (tmp_path / "broken" / "rewriter.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        Rewriter.load(tmp_path / "broken")


def test_candidates_by_hand():
    generator = Scripted("Query: Mira Tolve death", ["mira tolve death?", "", "when did mira die", "when did she die"])
    candidates = sample_candidates([query()], generator, n=4, seed=5)
    assert [(c.source, c.text) for c in candidates] == [
        ("original", "when did she die"),
        ("first-question", "who is mira tolve when did she die"),
        ("greedy", "Mira Tolve death"),
        ("sample", "when did mira die"),
    ]
    # Of five texts one was empty; "mira tolve death?", the fallback and "when did she die" were there already.
    assert candidates.counts == {"written": 5, "fallback": 1, "cut": 0, "failed": 0, "long": 0, "duplicate": 3}
    sampled = generator.calls[1]
    assert (sampled["n"], sampled["temperature"], sampled["top_p"], sampled["seed"]) == (4, 0.9, 0.95, 5)
    assert len(generator.calls) == 2  # the greedy rewrite, and one prefill for all samples
    prompt = candidates[0].prompt
    assert all(c.prompt == prompt for c in candidates)
    assert prompt[0]["role"] == "system" and "when did she die" in prompt[-1]["content"]


def test_cut_rewrites_are_no_candidates():
    generator = Scripted("when did mira tolve of the", ["mira tolve death", "mira tolve of"], cut=("mira tolve of",))
    candidates = sample_candidates([query()], generator, n=2, include=("greedy",))
    assert [(c.source, c.text) for c in candidates[1:]] == [
        ("greedy", "when did mira tolve of the"),
        ("sample", "mira tolve death"),
    ]
    assert candidates.counts["cut"] == 1
    generator.cut = ("mira tolve of", "when did mira tolve of the")
    left = sample_candidates([query()], generator, n=2, include=("greedy",))
    assert [c.source for c in left] == ["original", "sample"]


def test_a_refused_prompt_leaves_the_free_candidates(capsys):
    class Refusing(Scripted):
        def generate(self, prompts, **settings):
            raise ValueError("too long")

        def run(self, tasks):
            raise ValueError("too long")

    candidates = sample_candidates([query()], Refusing("x"), n=2)
    assert [c.source for c in candidates] == ["original", "first-question"]
    assert candidates.counts["failed"] == 3
    assert "'c_2' has no greedy rewrite: the generator refused the prompt: too long" in capsys.readouterr().err


def test_with_a_store_a_second_run_is_free_and_a_killed_one_goes_on(tmp_path):
    queries = [query(f"c{number}_1", f"when did it end {number}") for number in range(40)]
    plain = sample_candidates(queries, Scripted("a b", ["c d", "e f"]), n=2)

    class Dying(Scripted):
        def run(self, tasks):
            if self.calls:
                raise KeyboardInterrupt
            return super().run(tasks)

    store = tmp_path / "s.sqlite"
    with pytest.raises(KeyboardInterrupt):
        sample_candidates(queries, Dying("a b", ["c d", "e f"]), n=2, store=store)
    second, third = Scripted("a b", ["c d", "e f"]), Scripted("z", ["z", "z"])
    assert list(sample_candidates(queries, second, n=2, store=store)) == list(plain)
    assert [len(call["prompts"]) for call in second.calls] == [8, 8]  # the first 32 were there
    again = sample_candidates(queries, third, n=2, store=store)
    assert (list(again), again.counts, third.calls) == (list(plain), plain.counts, [])
    sample_candidates(queries[:1], third, n=2, seed=99, store=store)
    assert len(third.calls) == 1  # other samples, the same greedy rewrite


def test_include_chooses_the_sources():
    generator = Scripted("a", ["b", "c"])
    only = sample_candidates([query()], generator, n=2, include=())
    assert [c.source for c in only] == ["original", "sample", "sample"]  # the question is one in any case
    free = sample_candidates([query()], Scripted(None), n=0, include=("first-question",))
    assert len(free) == 2


@pytest.mark.parametrize("options", [{"include": ("human",)}, {"n": -1}])
def test_wrong_sampling_options(options):
    with pytest.raises(ConfigError):
        sample_candidates([query()], Scripted("a"), **options)


def test_samples_do_not_depend_on_the_neighbours(tiny_base):
    generator = load_generator(str(tiny_base))
    queries = [query("a_1"), query("b_1", "where did it live"), query("c_1", "who is it")]
    together = sample_candidates(queries, generator, n=6, max_new_tokens=60)
    alone = sample_candidates(queries[1:2], generator, n=6, max_new_tokens=60)
    assert "sample" in {candidate.source for candidate in alone}
    assert [c for c in together if c.query_id == "b_1"] == list(alone)
