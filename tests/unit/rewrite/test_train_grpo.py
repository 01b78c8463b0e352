"""Training on a live reward: the reward by hand, and a tiny policy that a real retriever and reader reward."""

import json
import shutil

import pytest

from utilitune.errors import ConfigError, DataError, ThresholdError
from utilitune.records import Passage, Query, Run, Turn
from utilitune.rewrite import GrpoConfig, LiveReward, train_grpo
from utilitune.rewrite.candidate import Candidate

QUICK = {"batch_size": 1, "lora_r": 4, "lora_alpha": 8, "max_length": 200, "lr": 1e-2, "warmup": 0.0}
QUICK |= {"generations": 3, "max_new_tokens": 6, "temperature": 1.0}
CORPUS = [
    Passage(f"p{n}", text) for n, text in enumerate(["mira river mill", "orlen glass works", "tolve bridge town"])
]
HISTORY = (Turn("user", "who is mira"), Turn("assistant", "mira"))
QUERIES = [Query(f"c{n}_2", f"{word} did she live", HISTORY) for n, word in enumerate(["when", "where", "how", "what"])]


class Words:
    """A retriever: passages by the number of shared words."""

    def search_texts(self, texts, k=10):
        found = {}
        for key, text in texts.items():
            words = set(text.split())
            hits = [(p.id, float(len(words & set(p.text.split())))) for p in CORPUS]
            found[key] = sorted((hit for hit in hits if hit[1]), key=lambda hit: -hit[1])[:k]
        return Run(found)


class Length:
    """A utility that asks the reader to write, and counts the letters of the passage."""

    name, needs_answers, parameters = "length", False, {}

    def requests(self, query, passages):
        from utilitune.generator import Prompt
        from utilitune.scoring import Greedy

        return {"answer": Greedy(Prompt(plain=" ".join(p.text for p in passages) or "x"), 1)}

    def value(self, query, passages, responses):
        from utilitune.scoring import Value

        return Value(float(sum(len(p.text) for p in passages)), {})


@pytest.fixture(scope="module")
def reader(tiny_base):
    from utilitune.generator import load_generator

    return load_generator(str(tiny_base))


@pytest.fixture
def reward(reader):
    return LiveReward(QUERIES, {"words": Words()}, CORPUS, [Length()], reader, k=1)


def test_live_rewards_by_hand(reward):
    texts = ["Query: mira mill", "!!!", "mira  MILL", "orlen", "nothing here"]
    ids = ["c0_2", "c0_2", "c0_2", "c1_2", "c1_2"]
    # "mira mill" finds p0, "orlen" p1; the unusable text is the question, which finds nothing, as the last one does.
    assert reward(ids, texts) == [15.0, 0.0, 15.0, 17.0, 0.0]
    assert reward.counts == {"texts": 5, "fallback": 1, "unlabelled": 0, "empty": 2, "wanted": 2, "repeated": 0}


def test_by_expected_mrr_samples_that_are_alike_are_worth_the_most_whatever_they_find(reader):
    relative = LiveReward(QUERIES, {"words": Words()}, CORPUS, [Length()], reader, k=1, aggregate="expected-mrr")
    # p0 is worth 15, p1 17: among others "mira mill" is the worse text, alone it is all that can be believed in.
    worse, better = relative(["c0_2", "c0_2"], ["mira mill", "orlen"])
    assert worse < better < relative(["c0_2"], ["mira mill"])[0] == 1.0
    assert relative.is_relative


def test_anchors_tell_whether_samples_that_are_alike_are_good(reader):
    anchors = [Candidate("c0_2", "mira mill", "history"), Candidate("c0_2", "orlen", "greedy")]
    reward = LiveReward(
        QUERIES, {"words": Words()}, CORPUS, [Length()], reader, k=1, aggregate="expected-mrr", anchors=anchors
    )
    assert reward(["c0_2"], ["mira mill"]) < reward(["c0_2"], ["orlen"]), "each is alone in its call"
    assert reward.is_relative, "the other questions have no anchors"
    assert reward(["c1_2"], ["orlen"]) == [1.0], "a question without anchors is on its own"
    assert reward.inputs != LiveReward(QUERIES, {"words": Words()}, CORPUS, [Length()], reader, k=1).inputs


def anchored(reader, anchors, aggregate="expected-mrr"):
    return LiveReward(
        QUERIES, {"words": Words()}, CORPUS, [Length()], reader, k=1, aggregate=aggregate, anchors=anchors
    )


def test_anchors_count_once_and_only_for_their_questions(reader):
    anchors = [Candidate(query.id, "orlen", "greedy") for query in QUERIES]
    again = [Candidate(one.query_id, "Orlen!", "sample") for one in anchors]
    plain = anchored(reader, anchors)
    assert not plain.is_relative
    value = plain(["c0_2"], ["mira mill"])
    assert (
        anchored(reader, [*anchors, *again, Candidate("elsewhere", "mill", "greedy")])(["c0_2"], ["mira mill"]) == value
    )
    with pytest.raises(DataError, match="none of the 1 anchors is for one of the 4 questions, first for 'elsewhere'"):
        anchored(reader, [Candidate("elsewhere", "mill", "greedy")])


def test_an_aggregate_that_compares_nothing_reads_no_anchors(reader):
    anchors = [Candidate(query.id, "nothing here", "greedy") for query in QUERIES]
    reward = anchored(reader, anchors, "max")
    assert reward(["c0_2"], ["mira mill"]) == [15.0]
    assert reward.counts == {"texts": 1, "fallback": 0, "unlabelled": 0, "empty": 0, "wanted": 1, "repeated": 0}


def test_a_missing_label_teaches_nothing(reward):
    assert reward._filled(["a", "a", "a", "b"], [1.0, None, 2.0, None]) == [1.0, 1.5, 2.0, 0.0]
    assert reward.counts["unlabelled"] == 2


def test_another_index_of_the_same_name_is_another_reward(reader):
    from utilitune.retrieval import Bm25Retriever

    def inputs(k1):
        return LiveReward(QUERIES, {"bm25": Bm25Retriever.build(CORPUS, k1=k1)}, CORPUS, [Length()], reader).inputs

    assert inputs(0.9) == inputs(0.9) != inputs(1.2)


def test_an_unknown_question_is_refused(reward):
    with pytest.raises(DataError, match="first 'zz'"):
        reward(["zz"], ["mira"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_base, reader):
    """An uninterrupted run of 4 steps, checkpoints every 2."""
    out = tmp_path_factory.mktemp("grpo") / "rewriter"
    config = GrpoConfig(**QUICK, save_every=2)
    reward = LiveReward(QUERIES, {"words": Words()}, CORPUS, [Length()], reader, k=1)
    return out, config, train_grpo(QUERIES, str(tiny_base), out, reward, config), reward


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "adapter_model.safetensors")


def same(one, two):
    import torch

    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_every_sample_is_rewarded_and_the_policy_moves(trained):
    out, _, report, reward = trained
    assert report.steps == len(report.log) == 4
    assert reward.counts["texts"] == 4 * 3
    assert {"reward", "reward_std", "flat", "length"} <= set(report.log[0])
    assert any(weight.abs().max() > 0 for name, weight in weights(out).items() if "lora_B" in name)
    card = json.loads((out / "rewriter.json").read_text())
    assert (card["method"], card["max_new_tokens"]) == ("grpo", 6)
    assert sorted(card["training"]["query_ids"]) == [query.id for query in QUERIES]
    assert card["training"]["inputs"]["reward"]["utilities"] == [{"name": "length"}]


def test_resumed_training_equals_uninterrupted(trained, tiny_base, reward):
    out, config, report, _ = trained
    again = out.parent / "resumed"
    (again / "checkpoints").mkdir(parents=True)
    shutil.copytree(out / "checkpoints" / "checkpoint-2", again / "checkpoints" / "checkpoint-2")
    shutil.copy(out / "checkpoints" / "inputs.json", again / "checkpoints")
    resumed = train_grpo(QUERIES, str(tiny_base), again, reward, config, resume=True)
    assert resumed.resumed_from == 2
    assert [row["reward"] for row in resumed.log] == [row["reward"] for row in report.log]
    assert same(weights(out), weights(again))


def test_with_a_divergence_it_goes_on_from_an_adapter_and_resumes(trained, tmp_path, tiny_base, reward):
    start, _, _, _ = trained
    config = GrpoConfig(**QUICK, beta=0.1, save_every=2)
    report = train_grpo(QUERIES, str(tiny_base), tmp_path / "one", reward, config, start=start)
    assert report.reference == "start"
    assert report.log[0]["kl"] == pytest.approx(0.0, abs=1e-6)
    assert not (tmp_path / "one" / "ref").exists()
    again = tmp_path / "two"
    (again / "checkpoints").mkdir(parents=True)
    shutil.copytree(tmp_path / "one" / "checkpoints" / "checkpoint-2", again / "checkpoints" / "checkpoint-2")
    shutil.copy(tmp_path / "one" / "checkpoints" / "inputs.json", again / "checkpoints")
    assert train_grpo(QUERIES, str(tiny_base), again, reward, config, start=start, resume=True).resumed_from == 2
    assert same(weights(tmp_path / "one"), weights(again))


def test_a_high_reward_becomes_likelier(tmp_path, tiny_base):
    """With a reward for one word, its frequency among the samples rises."""

    class Likes(LiveReward):
        def __init__(self):
            self.seen = []
            self.counts = {}

        inputs = {"name": "likes"}  # noqa: RUF012
        is_relative = False

        def __call__(self, query_ids, texts):
            worth = [float(text.split().count("mira")) for text in texts]
            self.seen += worth
            return worth

    reward = Likes()
    config = GrpoConfig(**{**QUICK, "generations": 16, "lr": 5e-2}, max_steps=16, save_every=0)
    report = train_grpo(QUERIES, str(tiny_base), tmp_path / "out", reward, config)
    quarter = len(reward.seen) // 4
    assert sum(reward.seen[-quarter:]) > 2 * sum(reward.seen[:quarter])
    assert report.log[-1]["reward"] > report.log[0]["reward"]


def test_prompts_that_leave_no_room_are_counted(tmp_path, tiny_base, reward):
    with pytest.raises(DataError, match="no question is left"):
        train_grpo(QUERIES, str(tiny_base), tmp_path, reward, GrpoConfig(**{**QUICK, "max_length": 20}))
    long = [Query("long_1", "river " * 200, HISTORY)] * 3
    with pytest.raises(ThresholdError, match="3 of 5 prompts"):
        train_grpo([*QUERIES[:2], *long], str(tiny_base), tmp_path, reward, GrpoConfig(**QUICK))


def test_fewer_questions_than_a_step_takes(tmp_path, tiny_base, reward):
    with pytest.raises(ConfigError, match="4 questions, and a step takes 8"):
        train_grpo(QUERIES, str(tiny_base), tmp_path, reward, GrpoConfig(**{**QUICK, "batch_size": 8}))
