"""One line on the curves of each method, by hand-made curves."""

import pytest

from utilitune.rewrite.training_report import log_rows, reading


def curve(**columns):
    length = max(len(values) for values in columns.values())
    return [{"step": n + 1, **{name: values[n] for name, values in columns.items()}} for n in range(length)]


DPO = {"margin": [0.0, 0.1, 0.2, 0.3, 0.5], "accuracy": [0.5, 0.6, 0.7, 0.8, 1.0], "loss": [0.69, 0.6, 0.5, 0.4, 0.3]}
LOGPS = {"logp_chosen": [-10.0] * 5, "logp_rejected": [-12.0, -13.0, -14.0, -15.0, -16.0]}
GRPO = {"loss": [0.0] * 5, "reward_std": [0.5] * 5, "flat": [0.0] * 5, "cut": [0.0] * 5}


@pytest.mark.parametrize(
    ("method", "columns", "said"),
    [
        ("sft", {"loss": [4.0, 3.0, 2.5, 2.0, 1.5], "token_accuracy": [0.2] * 5}, "loss 4.000 to 1.500 a token, 20%"),
        ("sft", {"loss": [4.0, 3.0, 2.5, 2.0, 1.5], "token_accuracy": [0.2] * 5}, "are becoming likely"),
        ("sft", {"loss": [2.0] * 5}, "loss flat"),
        ("sft", {"loss": [2.0, 1.0, 0.5, 0.1, 0.01]}, "learnt by heart"),
        ("dpo", {**DPO, **LOGPS}, "the chosen side is pulling ahead"),
        ("dpo", {**DPO, **LOGPS}, "margin +0.500, accuracy 100% at the end, chosen log-probability +0.0 nats"),
        ("dpo", {**DPO, **LOGPS, "margin": [0.0] * 5}, "nothing learnt"),
        ("dpo", {**DPO, **LOGPS, "margin": [-1.0] * 5}, "the rejected side is winning"),
        ("dpo", {**DPO, **LOGPS, "logp_chosen": [-10.0, -11.0, -12.0, -13.0, -14.0]}, "comes from unlearning"),
        ("grpo", {**GRPO, "reward": [0.0, 0.1, 0.2, 0.3, 0.4]}, "the utility is rising"),
        ("grpo", {**GRPO, "reward": [0.4, 0.3, 0.2, 0.1, 0.0]}, "the utility is falling"),
        ("grpo", {**GRPO, "reward": [0.2] * 5}, "no clear change"),
        ("grpo", {**GRPO, "reward": [0.2] * 5, "reward_std": [0.0] * 5}, "all samples are worth the same"),
        ("grpo", {**GRPO, "reward": [0.2] * 5, "flat": [0.9] * 5}, "samples hardly differ"),
        ("grpo", {**GRPO, "reward": [0.2] * 5, "cut": [0.6] * 5}, "hit the length limit"),
    ],
)
def test_what_the_curves_mean(method, columns, said):
    assert said in reading(curve(**columns), method, beta=0.1)


@pytest.mark.parametrize("rewards", [[0.0, 0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1, 0.0], [0.2] * 5])
def test_the_level_of_a_relative_reward_is_not_read(rewards):
    said = reading(curve(**GRPO, reward=rewards), "grpo", relative=True)
    assert said.endswith("its level says nothing: measure")
    flat = {**GRPO, "flat": [0.9] * 5}
    assert "samples hardly differ" in reading(curve(**flat, reward=rewards), "grpo", relative=True)


def test_few_steps_are_not_read():
    assert reading([], "sft") == "no step was logged"
    assert reading(curve(loss=[2.0, 1.0]), "sft").endswith("2 steps are too few to read")


def test_columns_of_a_method_under_our_names():
    history = [{"step": 1, "loss": 0.5, "rewards/margins": 0.1, "kl": 3.0}, {"step": 1, "train_runtime": 9.0}]
    assert log_rows(history, "dpo") == [{"step": 1, "loss": 0.5, "margin": 0.1}]
    assert log_rows([{"step": 2, "loss": 0.0, "reward": 0.4, "kl": None}], "grpo") == [
        {"step": 2, "loss": 0.0, "reward": 0.4}
    ]
