"""Which targets a loss takes, and how groups become rows."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from utilitune.errors import ConfigError
from utilitune.rerank import LOSSES, Group, Groups, Relevance, RerankerConfig
from utilitune.rerank.cross_encoder import new_cross_encoder
from utilitune.rerank.losses import build_loss, fit_targets, rows, temperatures
from utilitune.rerank.rescale import RESCALES, rescale


def groups_of(*targets, rule="none", relevance=None):
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
    return Groups(made, rule=rule, relevance=relevance)


def groups_for(loss, *targets):
    """Groups as the loss wants them: signed where it asks for that."""
    return groups_of(*targets, relevance=Relevance() if LOSSES[loss].signed else None)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_equal_labels_are_refused(loss):
    with pytest.raises(ConfigError, match="nothing to learn"):
        fit_targets(groups_for(loss, (0.5, 0.5), (0.5, 0.5, 0.5)), RerankerConfig(loss=loss))


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
        fit_targets(groups_for(loss, (0.0, bad, 1.0)), RerankerConfig(loss=loss))


@pytest.mark.parametrize("loss", ["listwise-kl", "listnet"])
def test_no_softmax_of_a_softmax(loss):
    groups = groups_of((0.2, 0.8)).rescaled("softmax")
    with pytest.raises(ConfigError, match="softmax"):
        fit_targets(groups, RerankerConfig(loss=loss))
    assert fit_targets(groups, RerankerConfig(loss="bce")).rule == "softmax"


def test_udcg_wants_signed_utilities_as_they_are():
    config = RerankerConfig(loss="udcg")
    with pytest.raises(ConfigError, match=r"what helps and what distracts.*relevance None"):
        fit_targets(groups_of((0.5, 0.9)), config)
    with pytest.raises(ConfigError, match=r"rescale: none.*'min-max', relevance 'gold'"):
        fit_targets(groups_of((0.5, -0.3), relevance=Relevance()).rescaled("min-max"), config)
    with pytest.raises(ConfigError, match=r"within \[-1, 1\]"):
        fit_targets(groups_of((1.5, -0.3), relevance=Relevance()), config)
    again = groups_of((0.5, -0.3), relevance=Relevance()).rescaled("z-score")
    assert fit_targets(again, RerankerConfig(loss="udcg", rescale="none"))[0].targets == (0.5, -0.3)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_the_rule_that_suits_a_loss_gives_targets_that_it_takes(loss):
    rule = LOSSES[loss].rule
    assert rule in RESCALES
    span = RESCALES[rule]
    signed = LOSSES[loss].signed
    assert signed or (LOSSES[loss].low <= span.low and span.high <= LOSSES[loss].high)
    utilities = (0.9, -0.3, 0.0, -0.1) if signed else (-7.5, 0.3, 123.0, 0.3)
    fitted = fit_targets(groups_for(loss, utilities), RerankerConfig(loss=loss, rescale=rule))
    assert fitted[0].targets == rescale(utilities, rule)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_nothing_but_the_loss_bends_the_scores(tiny_bert, loss):
    model = new_cross_encoder(tiny_bert, seed=1, device="cpu")
    made = build_loss(loss, model)
    assert isinstance(getattr(made, "activation_fn", torch.nn.Identity()), torch.nn.Identity)
    model.activation_fn = torch.nn.Sigmoid()  # sentence-transformers' default for one output
    with pytest.raises(ConfigError, match=r"activation Sigmoid.*raw scores"):
        build_loss(loss, model)


def test_a_model_of_two_outputs_is_refused(tiny_bert):
    model = new_cross_encoder(tiny_bert, seed=1, device="cpu")
    model.transformers_model.config.num_labels = 2
    with pytest.raises(ConfigError, match="2 outputs"):
        build_loss("bce", model)


def test_listmle_by_hand(tiny_bert):
    """It sorts by the labels itself, and reads lists of different length."""
    model = new_cross_encoder(tiny_bert, seed=1, device="cpu").eval()
    queries, lists = ["red", "who built the mill"], [["king", "old town", "river"], ["bridge", "a new mill"]]
    targets = [[0.1, 0.9, 0.5], [1.0, 0.0]]
    with torch.no_grad():
        found = build_loss("list-mle", model)((queries, lists), [torch.tensor(row) for row in targets]).item()
    expected = 0.0
    for query, texts, row in zip(queries, lists, targets, strict=True):
        scores = model.predict([(query, text) for text in texts]).tolist()
        order = sorted(range(len(row)), key=lambda i: -row[i])
        for place, index in enumerate(order):
            expected -= scores[index] - math.log(sum(math.exp(scores[i]) for i in order[place:]))
    assert found == pytest.approx(expected / 2, abs=1e-5)


def test_a_loss_that_ranks_ties_says_so(capsys):
    fit_targets(groups_of((0.0, 0.0, 1.0), (0.2, 0.4, 0.6)), RerankerConfig(loss="list-mle"))
    assert "2 of 6 candidates tie" in capsys.readouterr().err
    fit_targets(groups_of((0.0, 0.0, 1.0)), RerankerConfig(loss="ranknet"))
    fit_targets(groups_of((0.2, 0.4, 0.6)), RerankerConfig(loss="list-mle"))
    assert capsys.readouterr().err == ""


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
