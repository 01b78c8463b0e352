"""Which targets a loss takes, and how groups become rows."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from utilitune.errors import ConfigError
from utilitune.rerank import LOSSES, Group, Groups, RerankerConfig
from utilitune.rerank.losses import fit_targets, rows, temperatures


def groups_of(*targets, rule="none"):
    made = [
        Group(
            f"q{place}",
            f"question {place}",
            tuple(f"p{i}" for i in range(len(row))),
            tuple(f"text {i}" for i in range(len(row))),
            row,
            row,
        )
        for place, row in enumerate(targets)
    ]
    return Groups(made, rule=rule)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_equal_labels_are_refused(loss):
    with pytest.raises(ConfigError, match="nothing to learn"):
        fit_targets(groups_of((0.5, 0.5), (0.5, 0.5, 0.5)), RerankerConfig(loss=loss))


@pytest.mark.parametrize("loss", ["bce", "lambda"])
def test_targets_out_of_range_are_refused_or_rescaled_by_an_explicit_rule(loss):
    groups = groups_of((-2.0, 0.3, 5.0))
    with pytest.raises(ConfigError, match=r"within \[0, 1\].*within \[-2, 5\].*rescale: min-max"):
        fit_targets(groups, RerankerConfig(loss=loss))
    fitted = fit_targets(groups, RerankerConfig(loss=loss, rescale="min-max"))
    assert fitted[0].targets == pytest.approx((0.0, 2.3 / 7, 1.0))
    with pytest.raises(ConfigError, match="within"):
        fit_targets(groups, RerankerConfig(loss=loss, rescale="z-score"))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_targets_that_are_not_finite_are_refused(loss, bad):
    with pytest.raises(ConfigError, match="finite"):
        fit_targets(groups_of((0.0, bad, 1.0)), RerankerConfig(loss=loss))


@pytest.mark.parametrize("loss", ["listwise-kl", "listnet"])
def test_no_softmax_of_a_softmax(loss):
    groups = groups_of((0.2, 0.8)).rescaled("softmax")
    with pytest.raises(ConfigError, match="softmax"):
        fit_targets(groups, RerankerConfig(loss=loss))
    assert fit_targets(groups, RerankerConfig(loss="bce")).rule == "softmax"


def test_default_temperature_follows_the_range_of_the_targets():
    assert temperatures(groups_of((0.0, 1.0)), RerankerConfig()) == (0.25, 1.0)
    assert temperatures(groups_of((-1.2, 1.2)), RerankerConfig()) == (1.0, 1.0)
    assert temperatures(groups_of((0.0, 1.0)), RerankerConfig(target_temperature=2.0)) == (2.0, 1.0)


def test_rows_of_each_layout():
    groups = groups_of((0, 1, 0), (1.0, 0.25))
    pairs = rows(groups, "pairs")
    assert pairs["query"] == ["question 0"] * 3 + ["question 1"] * 2
    assert pairs["passage"] == ["text 0", "text 1", "text 2", "text 0", "text 1"]
    assert pairs["label"] == [0.0, 1.0, 0.0, 1.0, 0.25]
    # Integer labels are cast: they crash squared-error losses.
    assert all(type(label) is float for label in pairs["label"])
    lists = rows(groups, "lists")
    assert lists["passages"] == [["text 0", "text 1", "text 2"], ["text 0", "text 1"]]
    assert lists["label"] == [[0.0, 1.0, 0.0], [1.0, 0.25]]
    margins = rows(groups, "margins")
    assert list(zip(margins["better"], margins["worse"], margins["label"], strict=True)) == [
        ("text 1", "text 0", 1.0),
        ("text 1", "text 2", 1.0),
        ("text 0", "text 1", 0.75),
    ]


def test_all_wrong_settings_are_named_at_once():
    config = RerankerConfig(loss="kl", epochs=0, learning_rate=-1.0, rescale="minmax", query_share=1.5)
    with pytest.raises(ConfigError) as caught:
        config.check()
    for word in ("'kl'", "listwise-kl", "epochs", "learning_rate", "'minmax'", "query_share"):
        assert word in str(caught.value)
    replace(config, loss="bce", epochs=1, learning_rate=1.0, rescale=None, query_share=0.5).check()
